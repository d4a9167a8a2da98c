#include "ops/feed_forward.h"

#include "core/visit_device.h"
#include "core/wide.h"
#include "ops/feed_forward_kernels.h"

namespace fovea {
namespace {

constexpr Op kFeedForward{"feed_forward", nullptr};  // never recorded

}  // namespace

Var fused_feed_forward(Tape& tape, const Var& x, const FeedForwardWeights& weights) {
  const Var inputs[] = {x, weights.in, weights.in_bias, weights.out, weights.out_bias};
  if (tape.wants_grad(inputs) || tape.packed() != nullptr || !x.value().is_contiguous()) return {};
  const Context& context = tape.context();
  kernels::FeedForward io{weights.activation, weights.gated, x.value().reshape({-1, x.dim(-1)}), {}, {}, {}, {}};
  const auto take = [&](const Var& from, Tensor& to) {
    if (!from.defined()) return true;
    to = from.value();
    return to.is_contiguous() && to.dtype() == wide_type(x.dtype());
  };
  if (!take(weights.in, io.in) || !take(weights.in_bias, io.in_bias) || !take(weights.out, io.out) ||
      !take(weights.out_bias, io.out_bias))
    return {};
  const Tensor y = visit_device(context, io, [&]<Device D>() { return kernels::feed_forward<D>(context, io); });
  if (!y.defined()) return {};
  return tape.record(kFeedForward, inputs, {y.reshape(x.shape())}, {}).front();
}

}  // namespace fovea
