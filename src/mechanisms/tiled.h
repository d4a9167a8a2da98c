#pragma once

#include <functional>
#include <optional>

#include "mechanisms/kind.h"
#include "tile/launch.h"

namespace fovea {

// One of several disjoint sets of pairs that make up a pattern.
struct Part {
  Pattern pattern;
  std::int64_t step = 1;   // only pairs a multiple of this apart: each class of such tokens runs as a dense piece
  std::int64_t head = -1;  // of this query head alone; -1: of all. Either all parts have a head or none
};

// What a mechanism asks of the tiled engine, besides the options of the call.
struct Tiled {
  tile::Weight weight = tile::Weight::softmax;
  Pattern pattern;      // of the mechanism itself
  double offset = 0.0;  // numbers of the weight, see tile::Problem
  int degree = 2;
  std::optional<tile::RowRule> rule = {};  // in place of a weight
  // Instead of the pattern (softmax only): the parts for sequences of these lengths, always equally many with the same
  // heads. They are joined by their log-sum-exp.
  std::function<std::vector<Part>(std::int64_t n_q, std::int64_t n_k)> parts = {};
  bool wide = false;  // the output is f32 (f64 for f64): sums that have yet to be divided or normalised
};

// Runs the call on the tiled engine and records it.
AttentionResult run_tiled(const Call& call, const Tiled& tiled);

// The pairs of n tokens that some parts keep, of all heads together.
double count_pairs(const std::vector<Part>& parts, const Sizes& sizes);

// Slopes of ALiBi for a number of heads: powers of 2^(-8/heads), interleaved when that is no power of two.
std::vector<double> alibi_slopes(std::int64_t heads);
Tensor alibi_slopes(const Context& context, std::int64_t heads, const HeadShare& share);  // f64 (heads)

}  // namespace fovea
