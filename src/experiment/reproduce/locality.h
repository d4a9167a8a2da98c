#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fovea {

// Share of the weights of a row that lies on the keys nearest to it: the locally accumulated attention score. Rows are
// divided by their sum; signed weights count by size.
class LocalityProfile {
 public:
  void add(std::span<const double> weights, std::int64_t n);  // (n, n), row by row

  // Mean over all rows of the mass on the share * n keys nearest to the row.
  double mass(double share) const;

 private:
  static constexpr std::size_t kPoints = 100;  // shares 0.01 to 1
  std::vector<double> sums_ = std::vector<double>(kPoints, 0.0);
  std::int64_t rows_ = 0;
};

}  // namespace fovea
