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

// Angles of the positions [first, first + count) at one frequency, with 1/64 of the sines and cosines: e^(i (a + b) w)
// = e^(i a w) e^(i b w), a a multiple of 64. In double, so that long positions keep their phase.
void fill_frequency(std::int64_t first, std::int64_t count, double frequency, const Tensor& angles, std::int64_t pair) {
  constexpr std::int64_t kNear = 64;
  const auto turn = [frequency](std::int64_t p) {
    const double angle = static_cast<double>(p) * frequency;
    return Turn{std::cos(angle), std::sin(angle)};
  };
  Turn near[kNear];
  for (std::int64_t b = 0; b < std::min(kNear, count); ++b) near[b] = turn(b);
  visit_wide(angles.dtype(), [&]<class R>() {
    const std::int64_t width = angles.dim(1);
    for (std::int64_t a = 0; a < count; a += kNear) {
      const Turn far = turn(first + a);
      for (std::int64_t b = 0; b < std::min(kNear, count - a); ++b) {
        R* row = angles.data<R>() + (a + b) * width;
        row[pair] = static_cast<R>(far.cosine * near[b].cosine - far.sine * near[b].sine);
        row[width / 2 + pair] = static_cast<R>(far.sine * near[b].cosine + far.cosine * near[b].sine);
      }
    }
  });
}

// (positions, width) of cosines and sines, and the row of it that each token uses. Positions far apart get a row each.
void fill_angles(const Context& context, const Tensor& positions, double base, cpu::Rotate& io) {
  const Spread spread = spread_of(positions);
  const bool dense = spread.count <= std::max<std::int64_t>(positions.numel(), 64);
  const std::int64_t count = dense ? spread.count : positions.numel();
  io.angles = Tensor::empty(context, {count, io.width}, wide(io.x.dtype()), Lifetime::scratch);
  io.row = Tensor::empty(context, positions.shape(), DType::i32, Lifetime::scratch);
  const std::int32_t* p = positions.data<std::int32_t>();
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    io.row.data<std::int32_t>()[i] = static_cast<std::int32_t>(dense ? std::int64_t{p[i]} - spread.lowest : i);
  parallel_for(context, io.width / 2, [&](std::int64_t pair) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(io.width));
    if (dense) return fill_frequency(spread.lowest, count, frequency, io.angles, pair);
    for (std::int64_t i = 0; i < count; ++i) fill_frequency(p[i], 1, frequency, io.angles.slice(0, i, i + 1), pair);
  });
}

// Rotates by the positions, or back.
Tensor rotated(const Context& context, const Tensor& x, const Tensor& positions, const Rotary& rotary, bool back) {
  cpu::Rotate io;
  io.halves = rotary.halves;
  io.width = (rotary.width == 0 ? x.dim(3) : rotary.width) / 2 * 2;
  io.x = x.stride(3) == 1 || x.dim(3) == 1 ? x : x.contiguous(context);
  io.y = Tensor::empty(context, x.shape(), x.dtype());
  fill_angles(context, positions, rotary.base, io);
  if (back) {
    const Tensor sines = io.angles.slice(1, io.width / 2, io.width);
    visit_wide(sines.dtype(), [&]<class R>() {
      for (std::int64_t i = 0; i < sines.dim(0); ++i)
        for (std::int64_t m = 0; m < sines.dim(1); ++m) sines.data<R>()[i * io.width + m] *= R(-1);
    });
  }
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
}

}  // namespace

Var rotate(Tape& tape, const Var& x, const Tensor& positions, const Rotary& rotary) {
  check_rotate(x, positions, rotary);
  const Tensor rows = positions.contiguous(tape.context());
  return tape.record(kRotate, {x}, rotated(tape.context(), x.value(), rows, rotary, false), {rows}, rotary);
}

}  // namespace fovea
