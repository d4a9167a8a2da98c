#pragma once

#include "fovea/tensor.h"

// Rows of (b, n, heads, d), last axis dense, picked by an index i32 (b, m, heads), dense; -1 picks none.
namespace fovea::kernels {

// to (b, m, heads, d) = the picked rows of from (b, n, heads, d); zeros for none.
struct TakeRows {
  Tensor from, index, to;
};
template <Device>
void take_rows(const Context& context, const TakeRows& io);

// to (b, n, heads, d), in the wide type, += from (b, m, heads, d) at the picked rows, in the order of the picks.
struct AddRows {
  Tensor from, index, to;
};
template <Device>
void add_rows(const Context& context, const AddRows& io);

// The picked rows of to (b, n, heads, d) become those of from (b, m, heads, d), or 0 where that is undefined.
struct PutRows {
  Tensor from, index, to;
};
template <Device>
void put_rows(const Context& context, const PutRows& io);

}  // namespace fovea::kernels
