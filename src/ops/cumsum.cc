#include "ops/cumsum_cpu.h"

#include <algorithm>

#include "ops/column_sum_cpu.h"
#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

// Turns the sums of stretches into what comes before each of them in its sequence (after it, for `back`).
void sums_before(const Tensor& sums, const Stretches& stretches, bool back) {
  visit_wide(sums.dtype(), [&]<class R>() {
    const std::int64_t width = sums.dim(1);
    std::vector<R> running(static_cast<std::size_t>(width));
    for (std::size_t s = 0; s + 1 < stretches.first.size(); ++s) {
      std::fill(running.begin(), running.end(), R(0));
      const std::int64_t begin = stretches.first[s], end = stretches.first[s + 1];
      for (std::int64_t i = begin; i < end; ++i) {
        R* row = sums.data<R>() + width * (back ? begin + end - 1 - i : i);
        for (std::int64_t c = 0; c < width; ++c) {
          R& sum = running[static_cast<std::size_t>(c)];
          std::swap(row[c], sum);  // `sum` now holds the stretch, `row` what was before it
          sum += row[c];
        }
      }
    }
  });
}

Tensor cumulated(const Context& context, const Tensor& x, const RowList& sequences, bool back) {
  const std::int64_t n = x.dim(1), rows = x.dim(0) * n, width = rows == 0 ? 0 : x.numel() / rows;
  const Tensor in = x.contiguous(context).reshape({rows, width}), y = Tensor::zeros(context, in.shape(), x.dtype());
  const Stretches stretches(sequences, n);
  const Tensor before = cpu::stretch_sums(context, in, stretches);
  sums_before(before, stretches, back);
  for_rows(context, before.dim(0), width * Stretches::kLongest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& stretch = stretches.list[static_cast<std::size_t>(i)];
      cpu::cumulate({in, y, back}, stretch.begin, stretch.end, before.select(0, i).raw());
    }
  });
  return y.reshape(x.shape());
}

void backward(Tape& tape, Node& node) {
  const auto& sequences = std::any_cast<const RowList&>(node.attributes);
  tape.accumulate(node.inputs[0], cumulated(tape.context(), node.grad(), sequences, true));
}

constexpr Op kCumsum{"cumsum", backward};

}  // namespace

Var cumsum(Tape& tape, const Var& x, const Sequences& rows) {
  if (x.value().rank() < 2) fail(ErrorCode::shape, "cumsum of shape " + x.shape().text(), {}, "(b, n, ...)");
  const RowList sequences = rows.rows(x.dim(0), x.dim(1), "rows");
  return tape.record(kCumsum, {x}, cumulated(tape.context(), x.value(), sequences, false), {}, sequences);
}

}  // namespace fovea
