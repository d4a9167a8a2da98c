#include "inspect/call.h"

#include <fmt/format.h>

#include "tensor/views.h"

namespace fovea::inspection {
namespace {

// On the device of the context, half types as f32.
Tensor near_copy(const Context& context, const Tensor& x, bool lasts) {
  if (!x.defined()) return x;
  const bool is_here = x.device() == context.device();
  const Tensor near = is_here ? x.contiguous(context) : fovea::on_host(x);
  const DType dtype = is_float(near.dtype()) ? wide_type(near.dtype()) : near.dtype();
  if (!lasts && dtype == near.dtype()) return near;
  Tensor copy = Tensor::empty(context, near.shape(), dtype, Lifetime::persistent);
  copy.copy_from(near);
  return copy;
}

// A call with its tensors replaced, those that are there.
template <class Change>
SequenceCall changed(SequenceCall call, const Change& change) {
  for (Tensor* x : {&call.q, &call.k, &call.v, &call.options.mask, &call.options.positions}) *x = change(*x);
  AttentionOptions& o = call.options;
  for (Var* x : {&o.bias, &o.diagonal_bias, &o.input, &o.initial_state})
    if (x->defined()) *x = change(x->value());
  for (Var& weight : o.weights) weight = change(weight.value());
  return call;
}

Tensor rows_of(const Tensor& x, const Sequences::Rows& rows) {
  if (!x.defined()) return x;
  return x.slice(0, rows.batch, rows.batch + 1).slice(1, rows.begin, rows.begin + rows.count);
}

// An axis that is broadcast stays so.
Tensor part_of(const Tensor& x, int axis, std::int64_t begin, std::int64_t count) {
  return x.dim(axis) == 1 ? x : x.slice(axis, begin, begin + count);
}

// The rectangle of a (b, heads, n_q, n_k) bias that a sequence reads.
Tensor pairs_of(const Tensor& x, const Sequences::Rows& q, const Sequences::Rows& k) {
  if (!x.defined()) return x;
  return part_of(part_of(part_of(x, 0, q.batch, 1), 2, q.begin, q.count), 3, k.begin, k.count);
}

}  // namespace

bool takes_width(const Mechanism& mechanism, const Tensor& q, const Tensor& v, std::int64_t width) {
  if (q.rank() != 4 || v.rank() != 4 || mechanism.kind().style.values_only) return false;
  const auto weights = [&](std::int64_t d_v) {
    return mechanism.weights(
        {.heads = q.dim(2), .kv_heads = v.dim(2), .d_k = q.dim(3), .d_v = d_v, .width = 1, .max_length = v.dim(1)});
  };
  const std::vector<WeightSpec> one = weights(v.dim(3)), other = weights(width);
  for (std::size_t i = 0; i < one.size(); ++i)
    if (one[i].shape != other[i].shape) return false;
  return true;
}

SequenceCall sequence_of(const Context& context, const Call& call, std::int64_t s, bool lasts) {
  if (s < 0 || s >= std::ssize(call.queries))
    fail(ErrorCode::usage, fmt::format("sequence {} of {}", s, call.queries.size()), "sequence",
         "sequences are counted from 0");
  const Sequences::Rows &q = call.queries[static_cast<std::size_t>(s)], &k = call.keys[static_cast<std::size_t>(s)];
  SequenceCall out{rows_of(call.q.value(), q), rows_of(call.k.value(), k), rows_of(call.v.value(), k), call.mechanism,
                   call.options};
  AttentionOptions& options = out.options;
  options.queries = options.keys = {};
  options.dropout_p = 0.0;
  options.return_lse = options.final_state = false;
  if (options.bias.defined()) options.bias = pairs_of(options.bias.value(), q, k);
  options.mask = pairs_of(options.mask, q, k);
  if (options.diagonal_bias.defined()) options.diagonal_bias = part_of(options.diagonal_bias.value(), 0, q.batch, 1);
  if (options.positions.defined()) options.positions = rows_of(options.positions, k);
  if (options.input.defined()) options.input = rows_of(options.input.value(), k);
  if (options.initial_state.defined()) options.initial_state = options.initial_state.value().slice(0, s, s + 1);
  return changed(std::move(out), [&](const Tensor& x) { return near_copy(context, x, lasts); });
}

SequenceCall on_host(const Context& host, const SequenceCall& call) {
  return changed(call, [&](const Tensor& x) { return near_copy(host, x, false); });
}

}  // namespace fovea::inspection
