#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/rotary.h"
#include "ops/work.h"

namespace fovea::cpu {
namespace {

struct Rotation {
  double cosine, sine;
};

struct Spread {
  std::int32_t lowest = 0;
  std::int64_t count = 0;  // positions from the lowest to the highest
};

Spread spread_of(const Tensor& positions) {
  if (positions.numel() == 0) return {};
  const std::int32_t* p = positions.data<std::int32_t>();
  const auto [low, high] = std::minmax_element(p, p + positions.numel());
  return {*low, std::int64_t{*high} - *low + 1};
}

// Rotations of whole positions at every frequency of a rotary encoding, in double: long positions keep their phase.
class Rotations {
 public:
  static constexpr std::int64_t kNear = 64;

  Rotations(const Rotary& rotary, std::int64_t width, bool back) : pairs_(width / 2), sign_(back ? -1.0 : 1.0) {
    for (std::int64_t m = 0; m < pairs_; ++m)
      frequency_.push_back(
          rotary.stretch.slowed(std::pow(rotary.base, -2.0 * static_cast<double>(m) / static_cast<double>(width))));
    for (std::int64_t b = 0; b < kNear; ++b)
      for (std::int64_t m = 0; m < pairs_; ++m) near_.push_back(rotation(b, m));
  }

  // Cosines and sines of `count` <= kNear positions from `first` on, into rows of 2 pairs. With 1/64 of the library
  // calls: e^(i (first + b) w) = e^(i first w) e^(i b w).
  template <class R>
  void write(std::int64_t first, std::int64_t count, R* rows) const {
    std::vector<Rotation> far;
    for (std::int64_t m = 0; m < pairs_; ++m) far.push_back(rotation(first, m));
    for (std::int64_t b = 0; b < count; ++b, rows += 2 * pairs_)
      for (std::int64_t m = 0; m < pairs_; ++m) {
        const Rotation f = far[static_cast<std::size_t>(m)], n = near_[static_cast<std::size_t>(b * pairs_ + m)];
        rows[m] = static_cast<R>(f.cosine * n.cosine - f.sine * n.sine);
        rows[pairs_ + m] = static_cast<R>(f.sine * n.cosine + f.cosine * n.sine);
      }
  }

 private:
  Rotation rotation(std::int64_t position, std::int64_t pair) const {
    const double angle = sign_ * static_cast<double>(position) * frequency_[static_cast<std::size_t>(pair)];
    return {std::cos(angle), std::sin(angle)};
  }

  std::int64_t pairs_;
  double sign_;  // -1: turn back
  std::vector<double> frequency_;
  std::vector<Rotation> near_;  // (kNear, pairs)
};

}  // namespace

Angles make_angles(const Context& context, const kernels::Rotate& io, std::int64_t width) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const Tensor& positions = io.positions;
  const Rotations rotations(io.rotary, width, io.back);
  const Spread spread = spread_of(positions);
  const bool dense = spread.count <= std::max(positions.numel(), Rotations::kNear);
  const std::int64_t count = dense ? spread.count : positions.numel();
  Angles angles{Tensor::empty(context, {count, width}, wide_type(io.x.dtype()), Lifetime::scratch),
                Tensor::empty(context, positions.shape(), DType::i32, Lifetime::scratch)};
  const std::int32_t* p = positions.data<std::int32_t>();
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    angles.row.data<std::int32_t>()[i] = static_cast<std::int32_t>(dense ? std::int64_t{p[i]} - spread.lowest : i);
  visit_wide(angles.table.dtype(), [&]<class R>() {
    R* rows = angles.table.data<R>();
    parallel_ranges(context, count, Rotations::kNear, [&](std::int64_t begin, std::int64_t end) {
      if (dense) return rotations.write(spread.lowest + begin, end - begin, rows + begin * width);
      for (std::int64_t i = begin; i < end; ++i) rotations.write(p[i], 1, rows + i * width);
    });
  });
  return angles;
}

}  // namespace fovea::cpu
