#pragma once

#include <chrono>
#include <string>

namespace fovea {

// What else the machine does: the cores that other programs kept busy since it was made. Times that are measured
// meanwhile are not those of this program alone.
class LoadMeter {
 public:
  LoadMeter();

  double others() const;  // cores, on the mean; 0 where the system does not tell

 private:
  struct Busy {
    double all = 0.0, own = 0.0;  // seconds of cores
    static Busy now();
  };

  std::chrono::steady_clock::time_point start_;
  Busy before_;
};

// From this share of the cores on, others are told of.
inline constexpr double kOthersShown = 0.1;

// "other programs kept 1.3 of 2 cores busy meanwhile: times and speeds are not to be trusted"; empty: nothing to tell.
std::string load_warning(double others, int cores);

}  // namespace fovea
