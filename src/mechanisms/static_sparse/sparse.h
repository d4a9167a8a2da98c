#pragma once

#include <vector>

#include "mechanisms/tiled.h"

// What mechanisms share that are a softmax over a fixed set of pairs.
namespace fovea {

// What such a set depends on, besides the mechanism's parameters.
struct PartSizes {
  std::int64_t n_q, n_k, heads, layer;
  bool causal;
};
// The set as disjoint parts. A causal call keeps only keys up to the query, whatever the parts say.
using PartsOf = std::vector<Part> (*)(const Mechanism& mechanism, const PartSizes& sizes);

AttentionResult run_parts(const Call& call, PartsOf parts);
// Of the pairs that are kept, in the first layer.
Flops parts_flops(const Sizes& sizes, const Mechanism& mechanism, PartsOf parts);

// Boxes of the first keys for every query, and of the first queries with all keys.
Pattern first_keys(std::int64_t count);
Pattern first_queries(std::int64_t count);

// factor^layer times `first`, or a number beyond every length.
std::int64_t grown(std::int64_t first, std::int64_t factor, std::int64_t layer);

// The first of `seen` positions that a window of `left` keys before the query may read, or the option's own window.
std::int64_t window_needs(std::int64_t left, const AttentionOptions& options, std::int64_t seen);

}  // namespace fovea
