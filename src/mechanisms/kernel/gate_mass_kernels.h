#pragma once

#include "fovea/tensor.h"
#include "ops/spans.h"

// 1 / (1 - e^kept) for every query, of what the gates up to its key have kept: kept (b, n_k, kv_heads), the logs of the
// products of gates. Dense, of the wide type.
namespace fovea::kernels {

struct GateMass {
  RowList queries, keys;
};

struct InverseMass {
  Tensor kept, out;  // out (b, n_q, heads), 1 where no key is read
  const GateMass* mass;
};
template <Device>
void inverse_gate_mass(const Context& context, const InverseMass& io);

struct InverseMassVjp {
  Tensor kept, g, d_kept;  // d_kept starts as 0
  const GateMass* mass;
};
template <Device>
void inverse_gate_mass_backward(const Context& context, const InverseMassVjp& io);

}  // namespace fovea::kernels
