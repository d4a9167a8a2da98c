#pragma once

#include "fovea/pattern.h"
#include "fovea/tensor.h"
#include "ops/spans.h"

// Softmax over s_ij = vector . tanh(left_i + right_j) of the pairs that a pattern keeps. Dense: left (b, n_q, heads,
// a), right (b, n_k, kv_heads, a) and vector (heads, a) in the wide type, value (b, n_k, kv_heads, d_v).
namespace fovea::kernels {

struct AdditiveInputs {
  Tensor left, right, vector, value;
};
struct AdditivePairs {
  RowList queries, keys;
  Pattern pattern;
};

// o (b, n_q, heads, d_v)
struct AttendAdditive {
  AdditiveInputs in;
  Tensor o;
  const AdditivePairs* pairs;
};
template <Device>
void attend_additive(const Context& context, const AttendAdditive& io);

// Gradients, in the wide type; they start as 0. d.vector (sequences, heads, a): of each sequence its own.
struct AttendAdditiveVjp {
  AdditiveInputs in;
  Tensor d_o;
  AdditiveInputs d;
  const AdditivePairs* pairs;
};
template <Device>
void attend_additive_backward(const Context& context, const AttendAdditiveVjp& io);

}  // namespace fovea::kernels
