#pragma once

#include "fovea/tensor.h"
#include "ops/spans.h"

// Orders within sequences, for each head of dense (b, n, heads).
namespace fovea::kernels {

// out i32: for each sequence `count` rows of heads, as top_indices() says.
struct TopIndices {
  Tensor scores, out;
  const RowList* sequences;
  std::int64_t count;
};
template <Device>
void top_indices(const Context& context, const TopIndices& io);

// out i32 (b, n, heads), as argsort() says. keys i64.
struct Argsort {
  Tensor keys, out;
  const RowList* sequences;
};
template <Device>
void argsort(const Context& context, const Argsort& io);

}  // namespace fovea::kernels
