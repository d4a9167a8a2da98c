#include <algorithm>
#include <tuple>

#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/sequence.h"
#include "ops/sliding_kernels.h"
#include "ops/spans.h"
#include "ops/work.h"

namespace fovea {
namespace {

void check_windows(const Var& x, const Sliding& w) {
  if (x.value().rank() != 3) fail(ErrorCode::shape, "sliding windows over shape " + x.shape().text(), {}, "(b, n, c)");
  constexpr std::int64_t kMost = 1 << 24;
  const std::tuple<const char*, std::int64_t, std::int64_t> limits[] = {
      {"size", w.size, 1}, {"stride", w.stride, 1}, {"before", w.before, 0}, {"after", w.after, 0}};
  for (const auto& [name, value, least] : limits)
    if (value < least || value > kMost)
      fail(ErrorCode::usage, std::to_string(value) + " is outside [" + std::to_string(least) + ", 2^24]",
           std::string("sliding.") + name);
}

// How many windows a sequence has.
std::int64_t count_windows(const Sliding& w, std::int64_t rows) {
  const std::int64_t padded = rows + w.before + w.after;
  return rows == 0 || padded < w.size ? 0 : (padded - w.size) / w.stride + 1;
}

// The row of a sequence that stands `at` rows from its beginning, counted into the padding; -1: none.
std::int64_t source_row(EdgePadding padding, std::int64_t at, std::int64_t rows) {
  if (padding == EdgePadding::replicate) return std::clamp<std::int64_t>(at, 0, rows - 1);
  if (padding == EdgePadding::circular) return (at % rows + rows) % rows;
  return at >= 0 && at < rows ? at : -1;
}

struct SlidingPlan {
  Tensor index;    // i32 (b, m, size): rows of the item; -1 for none
  Sequences rows;  // of the windows
};

SlidingPlan plan_windows(const Context& context, const Var& x, const Sliding& w, const Sequences& rows) {
  const std::int64_t b = x.dim(0), n = x.dim(1);
  const RowList sequences = rows.rows(b, n, "rows");
  SlidingPlan plan;
  std::int64_t m = count_windows(w, n);
  if (!rows.cu_seqlens.empty()) {
    m = 0;
    for (const auto& sequence : sequences) {
      plan.rows.cu_seqlens.push_back(static_cast<std::int32_t>(m));
      m += count_windows(w, sequence.count);
    }
    plan.rows.cu_seqlens.push_back(static_cast<std::int32_t>(m));
  }
  std::vector<std::int32_t> index(static_cast<std::size_t>(b * m * w.size), -1);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const auto& [item, begin, count] = sequences[s];
    const std::int64_t mine = count_windows(w, count);
    const std::int64_t first = item * m + (plan.rows.cu_seqlens.empty() ? 0 : plan.rows.cu_seqlens[s]);
    if (!rows.lengths.empty()) plan.rows.lengths.push_back(static_cast<std::int32_t>(mine));
    for (std::int64_t i = 0; i < mine * w.size; ++i) {
      const std::int64_t row = source_row(w.padding, i / w.size * w.stride + i % w.size - w.before, count);
      index[static_cast<std::size_t>(first * w.size + i)] = static_cast<std::int32_t>(row < 0 ? -1 : begin + row);
    }
  }
  plan.index = Tensor::from<std::int32_t>(context, {b, m, w.size}, index);
  return plan;
}

// saved: the index and, for a maximum, the taps that won.
void pool_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor g = node.grad().contiguous(context);
  const Tensor sums = Tensor::zeros(context, node.inputs[0]->shape, wide_type(g.dtype()));
  const kernels::SlidingPoolVjp io{node.saved[0], node.saved[1], g, sums};
  visit_device(context, io, [&]<Device D>() { kernels::sliding_pool_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], sums);
}

constexpr Op kMaxPool{"max_pool1d", pool_backward};
constexpr Op kAvgPool{"avg_pool1d", pool_backward};

SlidingRows pool(Tape& tape, const Op& op, const Var& x, const Sliding& w, const Sequences& rows) {
  check_windows(x, w);
  const Context& context = tape.context();
  const SlidingPlan plan = plan_windows(context, x, w, rows);
  const Tensor in = x.value().contiguous(context);
  const Tensor y = Tensor::empty(context, {x.dim(0), plan.index.dim(1), x.dim(2)}, x.dtype());
  const Tensor taps = &op == &kMaxPool ? Tensor::empty(context, y.shape(), DType::i32) : Tensor();
  const kernels::SlidingPool io{plan.index, taps, in, y};
  visit_device(context, io, [&]<Device D>() { kernels::sliding_pool<D>(context, io); });
  return {tape.record(op, {x}, y, {plan.index, taps}), plan.rows};
}

}  // namespace

SlidingRows unfold1d(Tape& tape, const Var& x, const Sliding& options, const Sequences& rows) {
  check_windows(x, options);
  const SlidingPlan plan = plan_windows(tape.context(), x, options, rows);
  const std::int64_t b = x.dim(0), m = plan.index.dim(1), c = x.dim(2);
  const Index picks(plan.index.reshape({b, m * options.size, 1}), -1, x.dim(1));
  const Var taken = take_rows(tape, reshape(tape, x, {b, x.dim(1), 1, c}), picks);
  return {reshape(tape, taken, {b, m, options.size * c}), plan.rows};
}

SlidingRows max_pool1d(Tape& tape, const Var& x, const Sliding& options, const Sequences& rows) {
  return pool(tape, kMaxPool, x, options, rows);
}

Var avg_pool1d(Tape& tape, const Var& x, std::int64_t size, const Sequences& rows) {
  const std::int64_t before = (size - 1) / 2;
  const Sliding around{.size = size, .before = before, .after = size - 1 - before, .padding = EdgePadding::replicate};
  return pool(tape, kAvgPool, x, around, rows).value;
}

Var conv1d(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Conv1d& options) {
  if (x.value().rank() != 3 || weight.value().rank() != 3 || weight.dim(0) < 1 || weight.dim(1) != x.dim(2))
    fail(ErrorCode::shape, "conv1d of " + x.shape().text() + " by " + weight.shape().text(), {},
         "(b, n, c) by (k, c, out)");
  const std::int64_t taps = weight.dim(0), before = (taps - 1) / 2;
  const Sliding around{.size = taps, .before = before, .after = taps - 1 - before, .padding = options.padding};
  const Var rows = unfold1d(tape, x, around, options.rows).value;
  return linear(tape, rows, reshape(tape, weight, {taps * weight.dim(1), weight.dim(2)}), bias);
}

Var patches(Tape& tape, const Var& images, std::int64_t p) {
  if (images.value().rank() != 4 || p < 1 || images.dim(1) % p != 0 || images.dim(2) % p != 0)
    fail(ErrorCode::shape, "patches of " + std::to_string(p) + " pixels from images of " + images.shape().text(), {},
         "(b, h, w, c), with h and w divisible by the size of a patch");
  const std::int64_t b = images.dim(0), down = images.dim(1) / p, across = images.dim(2) / p, c = images.dim(3);
  const Var squares = transpose(tape, reshape(tape, images, {b, down, p, across, p, c}), 2, 3);
  return reshape(tape, squares, {b, down * across, p * p * c});
}

}  // namespace fovea
