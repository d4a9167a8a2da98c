#pragma once

#include "tile/query.h"

namespace fovea::tile::cpu {

// A stretch of the keys and values of a query.
struct QuerySpan {
  const Queries& all;
  const Query& query;  // one of them
  const float* q;      // (heads, d_k), in f32
  std::int64_t first, count;
  float* scores;  // (heads, count): room
  float* out;     // (heads, 2 + d_v): largest score, sum of weights, weighted sum of values
};
void attend_span(const QuerySpan& span);

}  // namespace fovea::tile::cpu
