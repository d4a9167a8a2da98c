#pragma once

#include "fovea/tensor.h"

// Softmax attention over disjoint sets of keys, joined by log-sum-exp: o = sum over parts of e^(lse_p - lse) o_p.
namespace fovea::tile {

// o (b, n, heads, d) with a dense last axis and lse (b, n, heads), f32 (f64 for f64), over some of the keys. Rows of o
// whose lse is -inf are not read.
struct PartialOutput {
  Tensor o, lse;
};

// Any strides; `to` may be `a` or `b`. Rows that both parts leave empty become zero.
void merge(const Context& context, const PartialOutput& a, const PartialOutput& b, const PartialOutput& to);

// The gradient of one part; `lse` is that of both. d_o and d_lse may be undefined: zero. All dense.
struct MergeGradient {
  PartialOutput part, other;
  Tensor lse, d_o, d_lse;
  PartialOutput d_part;
};
void merge_backward(const Context& context, const MergeGradient& io);

}  // namespace fovea::tile
