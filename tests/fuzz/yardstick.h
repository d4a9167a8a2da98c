#pragma once

#include <optional>
#include <vector>

#include "conformance/trial.h"
#include "fuzz/case.h"

namespace fovea::fuzz {

using conformance::rounding_of;

// How far the results of the call in double move when every number that goes in moves, a number for each row.
class Spread {
 public:
  using Rows = std::vector<std::vector<double>>;

  Spread(const Case& c, const Outcome& still, double size, bool of_outputs = false);

  void more(std::uint64_t draws);
  const Rows& outputs() const { return outputs_; }
  const Rows& gradients() const { return gradients_; }

 private:
  const Case& c_;
  const Outcome& still_;
  double size_;  // of the noise
  bool of_outputs_;
  std::uint64_t drawn_ = 0;
  Rows outputs_, gradients_;
};

// What errors of a type are held against. Two things move the results: the noise of one rounding on all that goes in,
// and the roundings on the way, which the last bit of double shows: they are as much larger as the type is coarser. An
// output that hardly depends on what goes in (the norm of a row of one number) does not show its own rounding so.
class Yardstick {
 public:
  Yardstick(const Case& c, const Outcome& still, DType dtype, Spread& last_bit);

  // A few roundings of the type, and those of the longest sum, which is kept in the wide type.
  double slack() const { return slack_; }
  double rounding() const { return rounding_; }
  std::vector<double> of_output(std::size_t part) const;
  std::vector<double> of_gradient(std::size_t part) const;
  // ||outputs|| / ||leaf||: the gradient if one followed the other. Terms that cancel leave a rounding of it.
  double floor_of_gradient(std::size_t part) const { return (rounding_ + least_) * natural_[part] + least_; }
  double floor_of_output() const { return least_; }
  // A kink may lie where few draws look; and outputs, which backward reads, are rounded.
  void look_closer();

 private:
  using Rows = const Spread::Rows& (Spread::*)() const;
  std::vector<double> joined(Rows rows, std::size_t part) const;

  const Case& c_;
  const Outcome& still_;
  double rounding_, wide_;  // of the type, and of the one that sums are kept in
  double least_ = 0.0;      // what weights too small for the type leave of a sum over inputs
  double slack_ = 0.0;
  Spread& last_bit_;
  std::optional<Spread> coarse_, given_;
  std::vector<double> natural_;
};

struct Deviation {
  double ratio = 0.0;  // of the largest error to its tolerance; NaN: a result is not finite
  double error = 0.0, tolerance = 0.0;
  bool blunt = false;  // the tolerance is over half of the largest result
};
struct Allowed {
  double slack, rounding, floor;
};
// Rows are held against the larger of their own spread and the root mean square over all rows.
Deviation deviation(const Part& got, const Part& want, const std::vector<double>& spread, const Allowed& allowed);

}  // namespace fovea::fuzz
