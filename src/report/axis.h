#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea {

enum class Scale : std::uint8_t { linear, log, log2 };

struct Axis {
  std::string name;
  std::string unit = {};  // "ms"; empty for a pure number
  Scale scale = Scale::linear;
  std::vector<double> include = {};  // values the axis shows even when no data is there

  std::string title() const { return unit.empty() ? name : name + " (" + unit + ")"; }
};

// log when all values are positive and span a decade, else linear.
Scale scale_for(const std::vector<double>& values);

struct Tick {
  double value;
  std::string label;  // empty: a line without a number
};

// An axis laid over data: the range it shows, its ticks, and where a value lies between 0 and 1.
class AxisMap {
 public:
  // Values that are not finite, or not positive on a log scale, are left out. The ends of a linear axis are those of
  // the data, or the round numbers around them.
  enum class Ends : std::uint8_t { data, round };
  AxisMap(const Axis& axis, const std::vector<double>& values, Ends ends);

  bool shows(double value) const;
  double position(double value) const;  // 0 at the low end, 1 at the high end
  double value(double position) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  double warp(double value) const;
  void make_linear_ticks(Ends ends);
  void make_log_ticks();
  void make_log2_ticks();

  Scale scale_;
  double low_ = 0, high_ = 1;  // warped
  std::vector<Tick> ticks_;
};

}  // namespace fovea
