#pragma once

#include "fovea/tensor.h"

// Rows of a table by an index i32 of any shape, checked. All dense.
namespace fovea::kernels {

struct GatherRows {
  Tensor table, index, out;
};
template <Device>
void gather_rows(const Context& context, const GatherRows& io);

// table (rows, width), in the wide type, += the rows of g (indices, width) that belong to each, in a fixed order.
struct ScatterAdd {
  Tensor g, index, table;
};
template <Device>
void scatter_add(const Context& context, const ScatterAdd& io);

}  // namespace fovea::kernels
