#pragma once

#include "fovea/tensor.h"
#include "ops/spans.h"

// Rows of a table by an index i32 of any shape, checked. All dense.
namespace fovea::kernels {

struct GatherRows {
  Tensor table, index, out;
};
template <Device>
void gather_rows(const Context& context, const GatherRows& io);

// out (index.shape, width), of any float = the rows of a table and of another with an index of its own, both in the
// wide type: added, then rounded.
struct GatherSum {
  Tensor table, index, other, other_index, out;
};
template <Device>
void gather_sum(const Context& context, const GatherSum& io);

// table (rows, width), in the wide type, += the rows of g (batch n, width): row p of every run that is so long, in the
// order of the runs.
struct AddRuns {
  Tensor g, table;
  const RowList* runs;
  std::int64_t n;
};
template <Device>
void add_runs(const Context& context, const AddRuns& io);

// table (rows, width), in the wide type, += the rows of g (indices, width) that belong to each, in a fixed order.
struct ScatterAdd {
  Tensor g, index, table;
};
template <Device>
void scatter_add(const Context& context, const ScatterAdd& io);

}  // namespace fovea::kernels
