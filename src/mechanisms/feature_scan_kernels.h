#pragma once

#include "ops/features_kernels.h"
#include "scan/launch.h"

// The linear engine on features of q and k, f32 and without causal order: where they can be made a block at a time,
// there is never more of them, nor of their gradients.
namespace fovea::kernels {

struct FeatureScan {
  const scan::Problem* problem;  // d_k: features
  FeatureForward q, k;           // y: undefined where backward is not to have it
  scan::ForwardTensors scan;     // its q and k undefined
};
template <Device>
void feature_scan(const Context& context, const FeatureScan& io);

struct FeatureScanBackward {
  const scan::Problem* problem;
  FeatureBackward q, k;        // dy undefined
  scan::BackwardTensors scan;  // q, k, dq and dk undefined
};
template <Device>
void feature_scan_backward(const Context& context, const FeatureScanBackward& io);

}  // namespace fovea::kernels
