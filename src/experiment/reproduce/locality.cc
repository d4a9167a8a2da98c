#include "experiment/reproduce/locality.h"

#include <algorithm>
#include <cmath>

namespace fovea {

void LocalityProfile::add(std::span<const double> weights, std::int64_t n) {
  constexpr double kTiny = 1e-12;
  std::vector<double> before(static_cast<std::size_t>(n) + 1, 0.0);  // sums of what comes before a key
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      before[static_cast<std::size_t>(j) + 1] =
          before[static_cast<std::size_t>(j)] + std::abs(weights[static_cast<std::size_t>(i * n + j)]);
    const double all = std::max(before.back(), kTiny);
    for (std::size_t point = 0; point < kPoints; ++point) {
      const auto keys =
          std::max<std::int64_t>(1, std::llround(static_cast<double>(n * (std::int64_t(point) + 1)) / kPoints));
      const auto first = static_cast<std::size_t>(std::clamp<std::int64_t>(i - (keys - 1) / 2, 0, n - keys));
      sums_[point] += (before[first + static_cast<std::size_t>(keys)] - before[first]) / all;
    }
    ++rows_;
  }
}

double LocalityProfile::mass(double share) const {
  const auto point = std::clamp<std::int64_t>(std::llround(share * kPoints) - 1, 0, kPoints - 1);
  return rows_ > 0 ? sums_[static_cast<std::size_t>(point)] / static_cast<double>(rows_) : 0.0;
}

}  // namespace fovea
