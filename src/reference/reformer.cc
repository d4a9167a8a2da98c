#include "reference/reformer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fovea::reference {
namespace {

// Bucket of key j in a round: the largest of [z r ; -z r], the first of equal ones.
std::int64_t bucket_of(const Problem& p, const Hashing& how, std::int64_t round, std::int64_t j, std::int64_t g) {
  // Two buckets for every chunk, where there are so many directions.
  const std::int64_t chunks = (p.n_k + how.chunk - 1) / how.chunk,
                     count = std::min(std::max<std::int64_t>(chunks, 1), how.directions);
  std::vector<double> rotated(at(2 * count));
  for (std::int64_t c = 0; c < count; ++c) {
    double sum = 0.0;
    for (std::int64_t a = 0; a < p.d_k; ++a)
      sum += p.key(j, g)[a] * p.weights[0][at((round * p.d_k + a) * how.directions + c)];
    rotated[at(c)] = sum;
    rotated[at(count + c)] = -sum;
  }
  return std::max_element(rotated.begin(), rotated.end()) - rotated.begin();
}

// counts (n, n): in how many rounds i has j in reach.
std::vector<int> reach(const Problem& p, const Hashing& how, std::int64_t g) {
  const std::int64_t n = p.n_k;
  std::vector<int> counts(at(n * n), 0);
  for (std::int64_t r = 0; r < how.rounds; ++r) {
    std::vector<std::int64_t> bucket(at(n)), order(at(n)), chunk(at(n));
    for (std::int64_t j = 0; j < n; ++j) bucket[at(j)] = bucket_of(p, how, r, j, g);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return bucket[at(a)] < bucket[at(b)]; });
    for (std::int64_t place = 0; place < n; ++place) chunk[at(order[at(place)])] = place / how.chunk;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const bool near = chunk[at(j)] == chunk[at(i)] || chunk[at(j)] == chunk[at(i)] - 1;
        const bool mates = how.across || bucket[at(i)] == bucket[at(j)];
        if (near && mates && (!p.causal || j <= i)) ++counts[at(i * n + j)];
      }
  }
  return counts;
}

std::vector<double> unit_keys(const Problem& p) {
  std::vector<double> keys = p.k;
  const double width = static_cast<double>(p.d_k);
  for (std::int64_t r = 0; r < p.n_k * p.kv_heads; ++r) {
    double squares = 0.0;
    for (std::int64_t c = 0; c < p.d_k; ++c) squares += keys[at(r * p.d_k + c)] * keys[at(r * p.d_k + c)];
    for (std::int64_t c = 0; c < p.d_k; ++c)
      keys[at(r * p.d_k + c)] /= std::sqrt(squares / width + 1e-12) * std::sqrt(width);
  }
  return keys;
}

}  // namespace

Result reformer(const Problem& given, const Hashing& how) {
  Problem p = given;
  p.k = unit_keys(given);
  if (given.scale == 0.0) p.scale = how.root ? 1.0 / std::sqrt(static_cast<double>(p.d_k)) : 1.0;
  std::vector<std::vector<int>> counts;
  for (std::int64_t g = 0; g < p.kv_heads; ++g) counts.push_back(reach(given, how, g));
  p.bias = [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    const std::vector<int>& seen = counts[at(p.kv_head(h))];
    int others = 0;
    for (std::int64_t c = 0; c < p.n_k; ++c) others += c != i ? seen[at(i * p.n_k + c)] : 0;
    const int count = seen[at(i * p.n_k + j)];
    if (count == 0 || (i == j && others > 0)) return -INFINITY + 0.0;
    return how.correct ? 0.0 : std::log(static_cast<double>(count));
  };
  return pairwise(p, Weights::softmax);
}

}  // namespace fovea::reference
