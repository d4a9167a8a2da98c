#pragma once

#include "reference/attention.h"

namespace fovea::reference {

struct Sorting {
  std::int64_t block, iterations, cut, routes;
  double temperature;
  bool sum;      // two softmaxes added, not one over both blocks
  bool masked;   // causal: the iteration on what is not later, in place of the best blocks
  bool learned;  // scores of blocks by a network of their mean input
};
// Each block attends to itself and to a mixture of blocks: a doubly stochastic one by Sinkhorn's iterations, or
// (causal) the best blocks before it, each by its share of a softmax. Scores of blocks are products of their mean q and
// k; a causal block knows the mean of q up to its first token. Or a network makes them of mean inputs x: relu(x A + a)
// B, with weights A (width, heads hidden), a, B (heads, hidden, blocks). cut > 0: all queries read the first mixtures
// alone.
Result sinkhorn(const Problem& problem, const Sorting& how);

}  // namespace fovea::reference
