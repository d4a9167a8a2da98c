#include "data/pathfinder/stencil.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fovea::pathfinder {
namespace {

double lanczos(double x) {
  constexpr double kLobes = 3.0;
  if (std::abs(x) >= kLobes) return 0.0;
  if (x == 0.0) return 1.0;
  const double t = std::numbers::pi * x;
  return kLobes * std::sin(t) * std::sin(t / kLobes) / (t * t);
}

// Rows of `in`, each to 1 / kFine of its length, given as columns: twice this reduces both axes.
Field reduce_rows(const Field& in, std::int32_t rows, std::int32_t length) {
  const std::int32_t out_length = length / kFine;
  Field out(static_cast<std::size_t>(rows * out_length));
  for (std::int32_t place = 0; place < out_length; ++place) {
    std::vector<double> weights(static_cast<std::size_t>(length));
    double sum = 0.0;
    for (std::int32_t i = 0; i < length; ++i)
      sum += weights[static_cast<std::size_t>(i)] = lanczos((i + 0.5) / kFine - (place + 0.5));
    for (std::int32_t row = 0; row < rows; ++row) {
      double total = 0.0;
      for (std::int32_t i = 0; i < length; ++i)
        total += weights[static_cast<std::size_t>(i)] * in[static_cast<std::size_t>(row * length + i)];
      out[static_cast<std::size_t>(place * rows + row)] = static_cast<float>(total / sum);
    }
  }
  return out;
}

}  // namespace

FineSquare::FineSquare(std::int32_t reach)
    : side_(kFine * (2 * reach + 1)), cells_(static_cast<std::size_t>(side_ * side_), 0.0f) {}

void FineSquare::line(double length, double radians) {
  constexpr double kStep = 0.25;
  const double middle = side_ / 2.0, half = length * kFine / 2.0;
  for (double t = -half; t <= half; t += kStep) {
    const auto y = static_cast<std::int32_t>(std::floor(middle + t * std::sin(radians)));
    const auto x = static_cast<std::int32_t>(std::floor(middle + t * std::cos(radians)));
    cells_[static_cast<std::size_t>(y * side_ + x)] = 1.0f;
  }
}

void FineSquare::disc(double radius) {
  const double middle = side_ / 2.0;
  for (std::int32_t y = 0; y < side_; ++y)
    for (std::int32_t x = 0; x < side_; ++x)
      if (std::hypot(y + 0.5 - middle, x + 0.5 - middle) <= radius * kFine)
        cells_[static_cast<std::size_t>(y * side_ + x)] = 1.0f;
}

void FineSquare::widen(double radius) {
  const auto reach = static_cast<std::int32_t>(radius * kFine);
  const Field before = cells_;
  for (std::int32_t y = 0; y < side_; ++y)
    for (std::int32_t x = 0; x < side_; ++x)
      for (std::int32_t dy = -reach; dy <= reach; ++dy)
        for (std::int32_t dx = -reach; dx <= reach; ++dx) {
          const std::int32_t from_y = y + dy, from_x = x + dx;
          const bool inside = from_y >= 0 && from_x >= 0 && from_y < side_ && from_x < side_;
          if (inside && std::hypot(dy, dx) <= radius * kFine &&
              before[static_cast<std::size_t>(from_y * side_ + from_x)] > 0.0f)
            cells_[static_cast<std::size_t>(y * side_ + x)] = 1.0f;
        }
}

Field FineSquare::reduced() const {
  Field out = reduce_rows(reduce_rows(cells_, side_, side_), side_ / kFine, side_);
  for (float& value : out) value = std::clamp(value, 0.0f, 1.0f);
  return out;
}

}  // namespace fovea::pathfinder
