#include "mechanisms/feature_scan_kernels.h"

namespace fovea {
namespace {

// The features themselves, as they are without a place to be kept.
Tensor room_for(const Context& context, const Tensor& x, const scan::Problem& problem) {
  return Tensor::empty(context, x.shape().with(3, problem.d_k), x.dtype(), Lifetime::scratch);
}

kernels::FeatureForward placed(const Context& context, kernels::FeatureForward io, const scan::Problem& problem) {
  if (!io.y.defined()) io.y = room_for(context, io.x, problem);
  return io;
}

}  // namespace

template <>
void kernels::feature_scan<Device::cuda>(const Context& context, const FeatureScan& io) {
  const FeatureForward q = placed(context, io.q, *io.problem), k = placed(context, io.k, *io.problem);
  features<Device::cuda>(context, q);
  features<Device::cuda>(context, k);
  scan::ForwardTensors on_features = io.scan;
  on_features.in.q = q.y;
  on_features.in.k = k.y;
  scan::forward(context, *io.problem, on_features);
}

template <>
void kernels::feature_scan_backward<Device::cuda>(const Context& context, const FeatureScanBackward& io) {
  FeatureBackward q = io.q, k = io.k;
  q.dy = room_for(context, q.x, *io.problem);
  k.dy = room_for(context, k.x, *io.problem);
  scan::BackwardTensors on_features = io.scan;
  on_features.in.q = q.y;
  on_features.in.k = k.y;
  on_features.dq = q.dy;
  on_features.dk = k.dy;
  scan::backward(context, *io.problem, on_features);
  features_backward<Device::cuda>(context, q);
  features_backward<Device::cuda>(context, k);
}

}  // namespace fovea
