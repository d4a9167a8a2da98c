#pragma once

#include "tile/contract.h"

namespace fovea::tile {

// The last query of a sequence, over all of its keys.
struct Query {
  std::int64_t n = 0;  // keys
  In q, keys, values;  // one row, and n rows
  Out o;               // one row
};

// Softmax attention of single queries: a step of generation, of several sequences at once. It is bound by reading keys
// and values, which this does once and in the order of memory; the tiles of the other kernels would be packed for a
// single row.
struct Queries {
  DType dtype = DType::f32;  // of all four: f32 or bf16
  std::int64_t heads = 0, kv_heads = 0, d_k = 0, d_v = 0;
  double scale = 1.0;
  std::span<const Query> queries;
};

// The same bits at any number of threads and beside any other queries.
template <Device>
void attend_queries(const Context& context, const Queries& queries);

}  // namespace fovea::tile
