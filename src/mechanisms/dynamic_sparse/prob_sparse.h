#pragma once

#include "mechanisms/kind.h"
#include "reference/informer.h"

// ProbSparse's choice of queries: those whose scores on a few sampled keys are the most uneven.
namespace fovea {

// factor ceil(ln n) of n, and at least one: how many keys are sampled, and how many queries kept.
std::int64_t kept_of(std::int64_t n, std::int64_t factor);

// Which keys a query is measured on.
struct KeySample {
  reference::ProbSparse how;
  bool causal;
  std::int64_t keys;
  std::uint64_t seed = 0, stream = 0;

  std::int64_t visible(std::int64_t position) const { return causal && how.prefix ? position + 1 : keys; }
  // What the sum of a sample is divided by.
  std::int64_t terms(std::int64_t position) const {
    return how.all_keys ? visible(position) : kept_of(visible(position), how.factor);
  }
};

// max - mean of every query's scores on its sample, (b, n_q, heads) in the wide type; -inf before the first key.
// Samples are the same for every item and head, fresh in every training step and the same at every evaluation.
Tensor query_measures(const Call& call, const reference::ProbSparse& how, double scale);

// The queries that were, when their turn came, among the best of those up to them: i32 (b, most, heads), -1 where a
// head has fewer.
Tensor prefix_choice(const Context& context, const Tensor& measures, std::int64_t first, std::int64_t factor);

// -inf where a chosen query would see a later key: (b, heads, chosen, n_k), of index i32 (b, chosen, heads).
Tensor causal_bias(const Call& call, const Tensor& index);

}  // namespace fovea
