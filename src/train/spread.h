#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fovea {

// Mean and population deviation of numbers as they come (Welford); those that are not finite do not count.
struct Spread {
  std::int64_t count = 0;
  double mean = 0.0, squares = 0.0, largest = 0.0, last = 0.0;

  void add(double value) {
    if (!std::isfinite(value)) return;
    last = value;
    largest = std::max(largest, value);
    const double difference = value - mean;
    mean += difference / static_cast<double>(++count);
    squares += difference * (value - mean);
  }
  // NaN where there is no mean to divide by.
  double relative_deviation() const {
    if (count == 0 || !(mean > 0.0)) return std::numeric_limits<double>::quiet_NaN();
    return std::sqrt(squares / static_cast<double>(count)) / mean;
  }
};

}  // namespace fovea
