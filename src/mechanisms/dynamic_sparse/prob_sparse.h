#pragma once

#include "mechanisms/kind.h"
#include "reference/informer.h"

// ProbSparse's choice of queries: those whose scores on a few sampled keys are the most uneven.
namespace fovea {

// factor ceil(ln n) of n, and at least one: how many keys are sampled, and how many queries kept.
std::int64_t kept_of(std::int64_t n, std::int64_t factor);

// max - mean of every query's scores on its sample, (b, n_q, heads) in the wide type; -inf before the first key.
// Samples are the same for every item and head, fresh in every training step and the same at every evaluation.
Tensor query_measures(const Call& call, const reference::ProbSparse& how, double scale);

}  // namespace fovea
