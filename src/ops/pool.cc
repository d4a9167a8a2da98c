#include "core/visit_device.h"
#include "ops/pool_kernels.h"
#include "ops/sequence.h"

namespace fovea {
namespace {

// Elements of a row of (batch, n, ...).
std::int64_t row_width(const Shape& shape) {
  std::int64_t width = 1;
  for (int i = 2; i < shape.rank(); ++i) width *= shape.dim(i);
  return width;
}

struct Pool {
  RowList ranges;  // the mean of each is taken
};

RowList check_pool(const Var& x, const Sequences& rows) {
  if (x.value().rank() != 3) fail(ErrorCode::shape, "pooling of shape " + x.shape().text(), {}, "(batch, n, width)");
  return rows.rows(x.dim(0), x.dim(1), "rows");
}

// `segments` ranges for each sequence: nearly equal pieces of it, the longer ones first, then empty ones.
RowList cut_segments(const RowList& sequences, std::int64_t segments) {
  RowList pieces;
  for (const auto& [item, begin, count] : sequences) {
    const std::int64_t filled = std::min(count, segments);
    for (std::int64_t k = 0, at = begin; k < segments; ++k) {
      const std::int64_t size = k < filled ? count / filled + (k < count % filled ? 1 : 0) : 0;
      pieces.push_back({item, at, size});
      at += size;
    }
  }
  return pieces;
}

// x (batch n, width) -> (ranges, width).
Tensor mean_rows(const Context& context, const Tensor& x, const RowList& ranges, std::int64_t n) {
  const kernels::MeanRows io{x, Tensor::empty(context, {std::ssize(ranges), x.dim(1)}, x.dtype()), &ranges, n};
  visit_device(context, io, [&]<Device D>() { kernels::mean_rows<D>(context, io); });
  return io.out;
}

// A dense gradient of a value between two operations, to which more of its own dtype can be added.
bool takes_more(const Slot& slot, DType dtype) {
  return !slot.leaf && slot.grad.defined() && slot.grad.is_contiguous() && slot.grad.dtype() == dtype;
}

void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& pool = std::any_cast<const Pool&>(node.attributes);
  const Shape& shape = node.inputs[0]->shape;  // (batch, n, ...)
  const std::int64_t n = shape.dim(1), width = row_width(shape);
  const Tensor g = node.grad().contiguous(context).reshape({std::ssize(pool.ranges), width});
  const bool add = takes_more(*node.inputs[0], g.dtype());
  const Shape rows{shape.dim(0) * n, width};
  const Tensor dx = add ? tape.target(node.inputs[0]).grad.reshape(rows) : Tensor::empty(context, rows, g.dtype());
  const kernels::MeanRowsVjp io{g, dx, &pool.ranges, n, add};
  visit_device(context, io, [&]<Device D>() { kernels::mean_rows_backward<D>(context, io); });
  if (!add) tape.accumulate(node.inputs[0], dx.reshape(shape));
}

constexpr Op kMeanPool{"mean_pool", backward};
constexpr Op kRowPool{"row_pool", backward};
constexpr Op kSegmentMean{"segment_mean", backward};

Tensor flat(const Context& context, const Var& x) {
  return x.value().contiguous(context).reshape({x.dim(0) * x.dim(1), row_width(x.shape())});
}

// Ranges of one row, or of none.
Var pool_rows(Tape& tape, const Var& x, RowList ranges) {
  const Tensor out = mean_rows(tape.context(), flat(tape.context(), x), ranges, x.dim(1));
  return tape.record(kRowPool, {x}, out, {}, Pool{std::move(ranges)});
}

}  // namespace

Var mean_pool(Tape& tape, const Var& x, const Sequences& rows) {
  const RowList sequences = check_pool(x, rows);
  const Tensor out = mean_rows(tape.context(), flat(tape.context(), x), sequences, x.dim(1));
  return tape.record(kMeanPool, {x}, out, {}, Pool{sequences});
}

Var first_pool(Tape& tape, const Var& x, const Sequences& rows) {
  RowList ranges = check_pool(x, rows);
  for (auto& range : ranges) range.count = std::min<std::int64_t>(range.count, 1);
  return pool_rows(tape, x, std::move(ranges));
}

Var last_pool(Tape& tape, const Var& x, const Sequences& rows) {
  RowList ranges = check_pool(x, rows);
  for (auto& [batch, begin, count] : ranges) {
    begin += std::max<std::int64_t>(count - 1, 0);
    count = std::min<std::int64_t>(count, 1);
  }
  return pool_rows(tape, x, std::move(ranges));
}

Var pool_at(Tape& tape, const Var& x, const Sequences& rows, std::span<const std::int32_t> index) {
  RowList ranges = check_pool(x, rows);
  if (index.size() != ranges.size())
    fail(ErrorCode::shape, std::to_string(index.size()) + " rows for " + std::to_string(ranges.size()) + " sequences",
         "index");
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    if (index[s] < 0 || index[s] >= ranges[s].count)
      fail(ErrorCode::bad_input,
           "row " + std::to_string(index[s]) + " of a sequence of " + std::to_string(ranges[s].count),
           "index[" + std::to_string(s) + "]");
    ranges[s] = {ranges[s].batch, ranges[s].begin + index[s], 1};
  }
  return pool_rows(tape, x, std::move(ranges));
}

SegmentMeans segment_mean(Tape& tape, const Var& x, std::int64_t segments, const Sequences& rows) {
  if (x.value().rank() != 4) fail(ErrorCode::shape, "segments of shape " + x.shape().text(), {}, "(b, n, heads, d)");
  if (segments < 1) fail(ErrorCode::usage, "cannot cut into " + std::to_string(segments) + " segments", "segments");
  const RowList sequences = rows.rows(x.dim(0), x.dim(1), "rows"), pieces = cut_segments(sequences, segments);
  const Tensor means = mean_rows(tape.context(), flat(tape.context(), x), pieces, x.dim(1));
  const Shape shape{static_cast<std::int64_t>(sequences.size()), segments, x.dim(2), x.dim(3)};
  SegmentMeans out{tape.record(kSegmentMean, {x}, means.reshape(shape), {}, Pool{pieces}), {}};
  for (const auto& sequence : sequences)
    out.rows.lengths.push_back(static_cast<std::int32_t>(std::min(sequence.count, segments)));
  return out;
}

}  // namespace fovea
