#include "mechanisms/dynamic_sparse/prob_sparse.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.h"
#include "core/rng.h"
#include "mechanisms/layout.h"
#include "ops/work.h"

namespace fovea {
namespace {

// Which keys a query is measured on.
class Samples {
 public:
  Samples(const Call& call, const reference::ProbSparse& how)
      : how_(how), causal_(call.options.causal), n_k_(call.k.dim(1)) {
    if (!call.tape.training()) return;
    seed_ = call.tape.context().seed();
    stream_ = call.tape.next_stream();
  }

  // f(key) for the query at `position`: all keys where the sample is as large as what it may see.
  template <class F>
  void each(std::int64_t position, const F& f) const {
    const std::int64_t seen = visible(position), count = kept_of(seen, how_.factor);
    Random random(seed_ ^ static_cast<std::uint64_t>(position), stream_);
    for (std::int64_t c = 0; c < count; ++c)
      f(count == seen ? static_cast<std::uint32_t>(c) : random.below(static_cast<std::uint32_t>(seen)));
  }

  // What the sum of a sample is divided by.
  std::int64_t terms(std::int64_t position) const {
    const std::int64_t seen = visible(position);
    return how_.all_keys ? seen : kept_of(seen, how_.factor);
  }

  std::int64_t keys() const { return n_k_; }

 private:
  std::int64_t visible(std::int64_t position) const { return causal_ && how_.prefix ? position + 1 : n_k_; }

  reference::ProbSparse how_;
  bool causal_;
  std::int64_t n_k_;
  std::uint64_t seed_ = 0, stream_ = 0;
};

struct Queries {
  std::int64_t begin, end;
  std::int64_t shift;  // from a query's row to its position among the keys
};

struct Pair {
  std::uint32_t query, key;  // the query counted from the first of its block
};

// The samples of a block of queries in the order of their keys, which then stream from memory: in the order of the
// queries they would jump about in all of it, three times as slow at n 32768.
std::vector<Pair> pairs_by_key(const Samples& samples, const Queries& queries) {
  std::vector<Pair> drawn;
  std::vector<std::size_t> place(static_cast<std::size_t>(samples.keys()) + 1, 0);
  for (std::int64_t i = queries.begin; i < queries.end; ++i)
    samples.each(i + queries.shift, [&](std::uint32_t key) {
      drawn.push_back({static_cast<std::uint32_t>(i - queries.begin), key});
      ++place[key + 1];
    });
  std::partial_sum(place.begin(), place.end(), place.begin());
  std::vector<Pair> sorted(drawn.size());
  for (const Pair& pair : drawn) sorted[place[pair.key]++] = pair;
  return sorted;
}

template <class T>
Wide<T> dot(const T* x, const T* y, std::int64_t width) {
  Wide<T> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += static_cast<Wide<T>>(x[c]) * static_cast<Wide<T>>(y[c]);
  return sum;
}

// What one query's sample shows in one head.
template <class R>
struct Peak {
  R top = -INFINITY, sum = 0;
};

// One item's measures (n_q, heads) of a block of queries, from q (n_q, heads, d) and k (n_k, kv_heads, d).
template <class T>
void measure_block(const Tensor& q, const Tensor& k, const Samples& samples, const Queries& queries,
                   std::span<const Pair> pairs, double scale, Wide<T>* out) {
  using R = Wide<T>;
  const std::int64_t heads = q.dim(1), group = heads / k.dim(1), d = q.dim(2);
  std::vector<Peak<R>> peaks(static_cast<std::size_t>((queries.end - queries.begin) * heads));
  for (const Pair& pair : pairs) {
    const T* query = q.data<T>() + (queries.begin + pair.query) * q.stride(0);
    const T* key = k.data<T>() + pair.key * k.stride(0);
    for (std::int64_t h = 0; h < heads; ++h) {
      Peak<R>& peak = peaks[static_cast<std::size_t>(pair.query * heads + h)];
      const R score = static_cast<R>(scale) * dot(query + h * q.stride(1), key + h / group * k.stride(1), d);
      peak.top = std::max(peak.top, score);
      peak.sum += score;
    }
  }
  for (std::size_t p = 0; p < peaks.size(); ++p) {
    const std::int64_t row = queries.begin + static_cast<std::int64_t>(p) / heads;
    out[queries.begin * heads + static_cast<std::int64_t>(p)] =
        peaks[p].top - peaks[p].sum / static_cast<R>(samples.terms(row + queries.shift));
  }
}

}  // namespace

std::int64_t kept_of(std::int64_t n, std::int64_t factor) {
  const auto wanted = factor * static_cast<std::int64_t>(std::ceil(std::log(static_cast<double>(n))));
  return std::clamp<std::int64_t>(wanted, 1, n);
}

Tensor query_measures(const Call& call, const reference::ProbSparse& how, double scale) {
  constexpr std::int64_t kBlock = 1024;  // as many queries read each of 32768 keys twice
  const Context& context = call.tape.context();
  const Tensor q = dense_rows(context, call.q.value()), k = dense_rows(context, call.k.value());
  const std::int64_t n_q = q.dim(1), shift = k.dim(1) - n_q;
  const std::int64_t first = call.options.causal ? std::max<std::int64_t>(0, -shift) : 0;
  const Tensor out = Tensor::empty(context, {q.dim(0), n_q, q.dim(2)}, wide_type(q.dtype()));
  out.fill(-INFINITY);
  const Samples samples(call, how);
  visit_float(q.dtype(), [&]<class T>() {
    parallel_ranges(context, n_q - first, kBlock, [&](std::int64_t begin, std::int64_t end) {
      const Queries queries{first + begin, first + end, shift};
      const std::vector<Pair> pairs = pairs_by_key(samples, queries);
      for (std::int64_t b = 0; b < q.dim(0); ++b)
        measure_block<T>(q.select(0, b), k.select(0, b), samples, queries, pairs, scale,
                         out.data<Wide<T>>() + b * n_q * q.dim(2));
    });
  });
  return out;
}

}  // namespace fovea
