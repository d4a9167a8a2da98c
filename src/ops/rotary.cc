#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/rotary_cpu.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct Turn {
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

// Turns of whole positions at every frequency of a rotary encoding, in double: long positions keep their phase.
class Turns {
 public:
  static constexpr std::int64_t kNear = 64;

  Turns(const Rotary& rotary, std::int64_t width, bool back) : pairs_(width / 2), sign_(back ? -1.0 : 1.0) {
    for (std::int64_t m = 0; m < pairs_; ++m)
      frequency_.push_back(
          rotary.stretch.slowed(std::pow(rotary.base, -2.0 * static_cast<double>(m) / static_cast<double>(width))));
    for (std::int64_t b = 0; b < kNear; ++b)
      for (std::int64_t m = 0; m < pairs_; ++m) near_.push_back(turn(b, m));
  }

  // Cosines and sines of `count` <= kNear positions from `first` on, into rows of 2 pairs. With 1/64 of the library
  // calls: e^(i (first + b) w) = e^(i first w) e^(i b w).
  template <class R>
  void write(std::int64_t first, std::int64_t count, R* rows) const {
    std::vector<Turn> far;
    for (std::int64_t m = 0; m < pairs_; ++m) far.push_back(turn(first, m));
    for (std::int64_t b = 0; b < count; ++b, rows += 2 * pairs_)
      for (std::int64_t m = 0; m < pairs_; ++m) {
        const Turn f = far[static_cast<std::size_t>(m)], n = near_[static_cast<std::size_t>(b * pairs_ + m)];
        rows[m] = static_cast<R>(f.cosine * n.cosine - f.sine * n.sine);
        rows[pairs_ + m] = static_cast<R>(f.sine * n.cosine + f.cosine * n.sine);
      }
  }

 private:
  Turn turn(std::int64_t position, std::int64_t pair) const {
    const double angle = sign_ * static_cast<double>(position) * frequency_[static_cast<std::size_t>(pair)];
    return {std::cos(angle), std::sin(angle)};
  }

  std::int64_t pairs_;
  double sign_;  // -1: turn back
  std::vector<double> frequency_;
  std::vector<Turn> near_;  // (kNear, pairs)
};

// (positions, width) of cosines and sines, and the row of it that each token uses. Positions far apart get a row each.
void fill_angles(const Context& context, const Tensor& positions, const Turns& turns, cpu::Rotate& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const Spread spread = spread_of(positions);
  const bool dense = spread.count <= std::max(positions.numel(), Turns::kNear);
  const std::int64_t count = dense ? spread.count : positions.numel();
  io.angles = Tensor::empty(context, {count, io.width}, wide_type(io.x.dtype()), Lifetime::scratch);
  io.row = Tensor::empty(context, positions.shape(), DType::i32, Lifetime::scratch);
  const std::int32_t* p = positions.data<std::int32_t>();
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    io.row.data<std::int32_t>()[i] = static_cast<std::int32_t>(dense ? std::int64_t{p[i]} - spread.lowest : i);
  visit_wide(io.angles.dtype(), [&]<class R>() {
    R* rows = io.angles.data<R>();
    parallel_ranges(context, count, Turns::kNear, [&](std::int64_t begin, std::int64_t end) {
      if (dense) return turns.write(spread.lowest + begin, end - begin, rows + begin * io.width);
      for (std::int64_t i = begin; i < end; ++i) turns.write(p[i], 1, rows + i * io.width);
    });
  });
}

// Rotates by the positions, or back.
Tensor rotated(const Context& context, const Tensor& x, const Tensor& positions, const Rotary& rotary, bool back) {
  cpu::Rotate io;
  io.halves = rotary.halves;
  io.width = (rotary.width == 0 ? x.dim(3) : rotary.width) / 2 * 2;
  io.x = dense_rows(context, x);
  io.y = Tensor::empty(context, x.shape(), x.dtype());
  if (x.numel() == 0) return io.y;
  fill_angles(context, positions, Turns(rotary, io.width, back), io);
  cpu::rotate(context, io);
  return io.y;
}

// saved: the positions.
void backward(Tape& tape, Node& node) {
  const auto& rotary = std::any_cast<const Rotary&>(node.attributes);
  tape.accumulate(node.inputs[0], rotated(tape.context(), node.grad(), node.saved[0], rotary, true));
}

constexpr Op kRotate{"rotate", backward};

void check_rotate(const Var& x, const Tensor& positions, const Rotary& rotary) {
  if (x.value().rank() != 4)
    fail(ErrorCode::shape, "rotate of shape " + x.shape().text(), {}, "(batch, n, heads, dim)");
  if (positions.dtype() != DType::i32 || positions.shape() != Shape{x.dim(0), x.dim(1)})
    fail(ErrorCode::shape,
         "positions " + std::string(name_of(positions.dtype())) + positions.shape().text() + " for x of shape " +
             x.shape().text(),
         "positions", "i32 (batch, n)");
  if (rotary.width < 0 || rotary.width > x.dim(3))
    fail(ErrorCode::shape,
         "cannot rotate " + std::to_string(rotary.width) + " of " + std::to_string(x.dim(3)) + " channels",
         "rotary.width");
  if (!(rotary.base > 0.0)) fail(ErrorCode::usage, "the rotary base must be positive", "rotary.base");
  const RotaryStretch& stretch = rotary.stretch;
  if (!(stretch.factor > 0.0) || stretch.length < 0 || !(stretch.low < stretch.high))
    fail(ErrorCode::usage, "the factor must be positive and low below high", "rotary.stretch");
}

}  // namespace

double RotaryStretch::slowed(double frequency) const {
  const double slow = frequency / factor;
  if (length == 0) return slow;
  const double turns = static_cast<double>(length) * frequency / (2.0 * std::acos(-1.0));
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return (1.0 - kept) * slow + kept * frequency;
}

Var rotate(Tape& tape, const Var& x, const Tensor& positions, const Rotary& rotary) {
  check_rotate(x, positions, rotary);
  const Tensor rows = positions.contiguous(tape.context());
  return tape.record(kRotate, {x}, rotated(tape.context(), x.value(), rows, rotary, false), {rows}, rotary);
}

}  // namespace fovea
