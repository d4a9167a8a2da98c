#include "reference/informer.h"

#include <algorithm>
#include <cmath>

#include "reference/random.h"

namespace fovea::reference {
namespace {

std::int64_t share(std::int64_t n, std::int64_t factor) {
  const auto wanted = factor * static_cast<std::int64_t>(std::ceil(std::log(static_cast<double>(n))));
  return std::max<std::int64_t>(1, std::min(n, wanted));
}

// max - mean over the sample of query i.
double measure(const Problem& p, const ProbSparse& how, std::int64_t i, std::int64_t h) {
  const std::int64_t seen = p.causal && how.prefix ? p.position(i) + 1 : p.n_k, count = share(seen, how.factor);
  Draw draw(static_cast<std::uint64_t>(p.position(i)), 0);
  double top = -INFINITY, sum = 0.0;
  for (std::int64_t c = 0; c < count; ++c) {
    const std::int64_t j = count == seen ? c : draw.below(seen);
    const double score = scale_of(p) * dot(p.query(i, h), p.key(j, p.kv_head(h)), p.d_k);
    top = std::fmax(top, score);
    sum += score;
  }
  return top - sum / static_cast<double>(how.all_keys ? seen : count);
}

// Whether query i is among the kept ones of queries [first, last].
bool chosen(const std::vector<double>& m, std::int64_t i, const ProbSparse& how,
            std::pair<std::int64_t, std::int64_t> range) {
  std::int64_t better = 0;
  for (std::int64_t other = range.first; other <= range.second; ++other)
    if (m[at(other)] > m[at(i)] || (m[at(other)] == m[at(i)] && other < i)) ++better;
  return better < share(range.second - range.first + 1, how.factor);
}

}  // namespace

Result informer(const Problem& p, const ProbSparse& how) {
  Result out = pairwise(p, Weights::softmax);
  if (p.n_k == 0) return out;
  const std::int64_t first = p.causal ? std::max<std::int64_t>(0, p.n_q - p.n_k) : 0;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    std::vector<double> m(at(p.n_q), -INFINITY);
    for (std::int64_t i = first; i < p.n_q; ++i) m[at(i)] = measure(p, how, i, h);
    for (std::int64_t i = first; i < p.n_q; ++i) {
      if (chosen(m, i, how, {first, p.causal && how.prefix ? i : p.n_q - 1})) continue;
      const std::int64_t seen = p.causal ? p.position(i) + 1 : p.n_k;
      for (std::int64_t c = 0; c < p.d_v; ++c) {
        double sum = 0.0;
        for (std::int64_t j = 0; j < seen; ++j) sum += p.value(j, p.kv_head(h))[c];
        out.o[at((i * p.heads + h) * p.d_v + c)] = p.causal && how.sum ? sum : sum / static_cast<double>(seen);
      }
    }
  }
  return out;
}

}  // namespace fovea::reference
