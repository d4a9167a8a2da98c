#pragma once

#include "mechanisms/static_sparse/fixed_heads.h"
#include "ops/spans.h"

// Rows of values with given weights, last axes dense.
namespace fovea::kernels {

struct GivenCall {
  GivenHeads given;
  std::int64_t heads;  // of q
  RowList queries, keys;
};

// o (b, n_q, given, d_v) of v (b, n_k, kv_heads, d_v).
struct ApplyGiven {
  Tensor v, o;
  const GivenCall* call;
};
template <Device>
void apply_given(const Context& context, const ApplyGiven& io);

struct ApplyGivenVjp {
  Tensor d_o, dv;
  const GivenCall* call;
};
template <Device>
void apply_given_backward(const Context& context, const ApplyGivenVjp& io);

}  // namespace fovea::kernels
