#include "mechanisms/gaussian.h"

#include <fmt/format.h>

#include "core/parallel.h"
#include "mechanisms/layout.h"
#include "ops/work.h"

namespace fovea {
namespace {

constexpr std::int64_t kGrain = 256;  // rows

struct Columns {
  std::int64_t d;
  int parts;  // of the square
  Side side;

  Columns(std::int64_t d, DType dtype, Side side) : d(d), parts(size_of(dtype) == 2 ? 2 : 1), side(side) {}
  std::int64_t width() const { return d + 2 * parts; }
  std::int64_t square() const { return d + (side == Side::key ? parts : 0); }
  std::int64_t one() const { return d + (side == Side::key ? 0 : parts); }
  bool has_square() const { return side != Side::sample; }
};

struct Appended {
  Side side;
  std::vector<Sequences::Rows> rows;
};

// body(item, row, head) for every row of a sequence.
template <class Body>
void each_row(const Context& context, const std::vector<Sequences::Rows>& rows, std::int64_t heads, Body&& body) {
  for (const Sequences::Rows& s : rows)
    parallel_ranges(context, s.count * heads, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(s.batch, s.begin + i / heads, i % heads);
    });
}

template <class T>
T* at(const Tensor& t, std::int64_t item, std::int64_t row, std::int64_t head) {
  return t.data<T>() + item * t.stride(0) + row * t.stride(1) + head * t.stride(2);
}

template <class T>
void append(const T* x, const Columns& columns, T* y) {
  using R = Wide<T>;
  R half = 0;
  for (std::int64_t c = 0; c < columns.d; ++c) {
    const R value = static_cast<R>(x[c]);
    if (columns.has_square()) half += R(0.5) * value * value;
    y[c] = x[c];
  }
  const T high = static_cast<T>(-half);
  y[columns.square()] = high;
  if (columns.parts == 2) y[columns.square() + 1] = static_cast<T>(-half - static_cast<R>(high));
  for (int i = 0; i < columns.parts; ++i) y[columns.one() + i] = T(1.0f);
}

void append_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& how = std::any_cast<const Appended&>(node.attributes);
  const Tensor &x = node.saved[0], g = node.grad().contiguous(context);
  const Tensor dx = gradient_like(tape, node.inputs[0], x, how.rows);
  const Columns columns(x.dim(3), x.dtype(), how.side);
  visit_float(x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    each_row(context, how.rows, x.dim(2), [&](std::int64_t item, std::int64_t row, std::int64_t head) {
      const T *from = at<T>(x, item, row, head), *in = at<T>(g, item, row, head);
      T* to = at<T>(dx, item, row, head);
      const R square = columns.has_square() ? static_cast<R>(in[columns.square()]) : R(0);
      for (std::int64_t c = 0; c < columns.d; ++c)
        to[c] = static_cast<T>(static_cast<R>(in[c]) - square * static_cast<R>(from[c]));
    });
  });
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kAppend{"gaussian_features", append_backward};

}  // namespace

Var gaussian_features(Tape& tape, const Var& x, Side side, const std::vector<Sequences::Rows>& rows) {
  const Context& context = tape.context();
  const Tensor in = dense_rows(context, x.value());
  const Columns columns(x.dim(3), x.dtype(), side);
  const Tensor out = output_like(context, x.shape().with(3, columns.width()), x.dtype(), rows);
  visit_float(x.dtype(), [&]<class T>() {
    each_row(context, rows, x.dim(2), [&](std::int64_t item, std::int64_t row, std::int64_t head) {
      append(at<T>(in, item, row, head), columns, at<T>(out, item, row, head));
    });
  });
  return tape.record(kAppend, {x}, out, {in}, Appended{side, rows});
}

double gaussian_scale(const Call& call) {
  const double scale = scale_of(call);
  if (!(scale >= 0.0))
    fail(ErrorCode::usage, fmt::format("a Gaussian kernel with the scale {}", scale), "scale", "a scale of at least 0");
  return scale;
}

Var gaussian_features(Tape& tape, const Var& x, Side side) {
  return gaussian_features(tape, x, side, Sequences{}.rows(x.dim(0), x.dim(1), "rows"));
}

}  // namespace fovea
