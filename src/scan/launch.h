#pragma once

#include "fovea/tensor.h"
#include "scan/contract.h"

// The door of the linear engine: tensors of any device in, the kernels of that device behind it.
namespace fovea::scan {

// (b, n, heads, d) with a dense last axis, statistics (b, n_q, columns) and states dense; what contract.h lets be null
// may be undefined.
struct Inputs {
  Tensor q, k, v, log_decay, initial_state;
};

struct ForwardTensors {
  Inputs in;
  Tensor o, rest, statistic, final_state;
  Tensor total_decay = {};  // (pieces, kv_heads, d_k), dense
};
// Features that are made of other rows (feature_source.h), in place of q and k, which are then undefined; as their
// gradients are.
struct Sources {
  const FeatureSource *q = nullptr, *k = nullptr;
};
void forward(const Context& context, const Problem& problem, const ForwardTensors& io, const Sources& sources = {});

struct BackwardTensors {
  Inputs in;
  Tensor o, rest, statistic, final_state, d_o, d_final_state;
  Tensor dq, dk, dv, d_log_decay, d_initial_state;
};
void backward(const Context& context, const Problem& problem, const BackwardTensors& io, const Sources& sources = {});

}  // namespace fovea::scan
