#include "ops/feed_forward.h"

#include "core/visit_device.h"
#include "core/wide.h"
#include "ops/feed_forward_kernels.h"

namespace fovea {
namespace {

constexpr Op kFeedForward{"feed_forward", nullptr};  // never recorded

}  // namespace

FeedForwardResult fused_feed_forward(Tape& tape, const FeedForwardInput& input, const FeedForwardWeights& weights) {
  const auto& [x, branch, norm] = input;
  const Var inputs[] = {x, branch, norm.gain, norm.bias, weights.in, weights.in_bias, weights.out, weights.out_bias};
  if (tape.wants_grad(inputs) || tape.packed() != nullptr || norm.kind == NormKind::l2) return {};
  const Context& context = tape.context();
  kernels::FeedForward io{weights.activation, weights.gated, {norm.kind, norm.eps, {}, {}, {}, {}}, {}, {}, {}, {}, {}};
  const auto take = [](const Var& from, DType dtype, Tensor& to) {
    if (from.defined()) to = from.value();
    return !to.defined() || (to.is_contiguous() && to.dtype() == dtype);
  };
  const DType wide = wide_type(x.dtype());
  if (!take(x, x.dtype(), io.x) || !take(branch, x.dtype(), io.norm.branch) || !take(norm.gain, wide, io.norm.gain) ||
      !take(norm.bias, wide, io.norm.bias) || !take(weights.in, wide, io.in) ||
      !take(weights.in_bias, wide, io.in_bias) || !take(weights.out, wide, io.out) ||
      !take(weights.out_bias, wide, io.out_bias))
    return {};
  io.x = io.x.reshape({-1, x.dim(-1)});
  if (branch.defined()) {
    io.norm.branch = io.norm.branch.reshape({-1, x.dim(-1)});
    io.norm.sum = Tensor::empty(context, io.x.shape(), x.dtype());
  }
  const Tensor y = visit_device(context, io, [&]<Device D>() { return kernels::feed_forward<D>(context, io); });
  if (!y.defined()) return {};
  const Tensor sum = branch.defined() ? io.norm.sum.reshape(x.shape()) : x.value();
  const std::vector<Var> results = tape.record(kFeedForward, inputs, {sum, y.reshape(x.shape())}, {});
  return {results[0], results[1]};
}

}  // namespace fovea
