#pragma once

#include "reference/attention.h"

namespace fovea::reference {

// ProbSparse attention at evaluation. A query is measured by max - mean of its scores on a sample of factor ceil(ln n)
// of the n keys it may see.
struct ProbSparse {
  std::int64_t factor;
  bool prefix;    // causal: samples of keys up to the query, ranks among the queries up to it; else of all
  bool sum;       // causal: the other queries get the running sum of the values, not their running mean
  bool all_keys;  // the mean divides by all keys
};
Result informer(const Problem& problem, const ProbSparse& how);

}  // namespace fovea::reference
