#pragma once

#include "mechanisms/kind.h"
#include "tile/contract.h"

namespace fovea {

// What a mechanism asks of the tiled engine, besides the options of the call.
struct Tiled {
  tile::Weight weight = tile::Weight::softmax;
  Pattern pattern;      // of the mechanism itself
  double offset = 0.0;  // numbers of the weight, see tile::Problem
  int degree = 2;
};

// Runs the call on the tiled engine and records it.
AttentionResult run_tiled(const Call& call, const Tiled& tiled);

// Slopes of ALiBi for a number of heads: powers of 2^(-8/heads), interleaved when that is no power of two.
std::vector<float> alibi_slopes(std::int64_t heads);

}  // namespace fovea
