#pragma once

#include "tile/contract.h"

namespace fovea::tile {

// Softmax attention of one query, the last of its sequence, over all keys: a step of generation. It is bound by reading
// keys and values, which this does once and in the order of memory; the tiles of the other kernels would be packed for
// a single row.
struct Query {
  DType dtype = DType::f32;  // of all four: f32 or bf16
  std::int64_t n = 0, heads = 0, kv_heads = 0, d_k = 0, d_v = 0;
  double scale = 1.0;
  const void* q = nullptr;  // (heads, d_k), dense
  In keys, values;          // n rows of (kv_heads, d)
  void* o = nullptr;        // (heads, d_v), dense
};

// The same bits at any number of threads.
template <Device>
void attend_query(const Context& context, const Query& query);

}  // namespace fovea::tile
