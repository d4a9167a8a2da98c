#pragma once

#include "fovea/attention.h"

// What ranks that divide sequences send each other, in closed form: what attention.h does, without doing it.
namespace fovea::divided {

struct TrafficSizes {
  std::int64_t length = 0;  // of a sequence
  std::int64_t heads = 1, kv_heads = 1, d_k = 0, d_v = 0;
  bool causal = false;
  DType dtype = DType::f32;
};

// Of one sequence in one layer, on the rank that has most of it.
struct Traffic {
  double forward = 0.0, backward = 0.0;  // bytes that it gets from others
  double messages = 0.0;                 // in both
  double work = 1.0;                     // its pairs of queries and keys, as a multiple of an even share
};

// Do ranks divide the work of the mechanism, or does each do that of all rows?
bool divides(const Mechanism& mechanism);
Traffic traffic(const Mechanism& mechanism, const TrafficSizes& sizes, std::int64_t ranks);

}  // namespace fovea::divided
