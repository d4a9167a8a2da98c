#include "core/visit_device.h"
#include "ops/order_kernels.h"
#include "ops/sequence.h"

namespace fovea {
namespace {

void check_scores(const Tensor& scores) {
  if (scores.rank() != 3) fail(ErrorCode::shape, "order of shape " + scores.shape().text(), {}, "(b, n, heads)");
}

}  // namespace

Tensor top_indices(const Context& context, const Tensor& scores, std::int64_t count, const Sequences& rows) {
  check_scores(scores);
  if (count < 0) fail(ErrorCode::usage, "cannot pick " + std::to_string(count) + " rows", "count");
  const std::int64_t heads = scores.dim(2), n = scores.dim(1);
  const RowList sequences = rows.rows(scores.dim(0), n, "rows");
  const auto total = static_cast<std::int64_t>(sequences.size());
  const bool packed = !rows.cu_seqlens.empty();
  const Tensor in = scores.contiguous(context),
               out = Tensor::empty(context, {packed ? 1 : total, packed ? total * count : count, heads}, DType::i32);
  const kernels::TopIndices io{in, out, &sequences, count};
  visit_device(context, io, [&]<Device D>() { kernels::top_indices<D>(context, io); });
  return out;
}

Tensor argsort(const Context& context, const Tensor& keys, const Sequences& rows) {
  check_scores(keys);
  const RowList sequences = rows.rows(keys.dim(0), keys.dim(1), "rows");
  const Tensor in = keys.contiguous(context), out = Tensor::empty(context, keys.shape(), DType::i32);
  const kernels::Argsort io{in, out, &sequences};
  visit_device(context, io, [&]<Device D>() { kernels::argsort<D>(context, io); });
  return out;
}

}  // namespace fovea
