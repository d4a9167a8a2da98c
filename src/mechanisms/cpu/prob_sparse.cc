#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rng.h"
#include "mechanisms/dynamic_sparse/prob_sparse_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

// f(key) for the query at `position`: all keys where the sample is as large as what it may see.
template <class F>
void each_key(const KeySample& sample, std::int64_t position, const F& f) {
  const std::int64_t seen = sample.visible(position), count = kept_of(seen, sample.how.factor);
  Random random(sample.seed ^ static_cast<std::uint64_t>(position), sample.stream);
  for (std::int64_t c = 0; c < count; ++c)
    f(count == seen ? static_cast<std::uint32_t>(c) : random.below(static_cast<std::uint32_t>(seen)));
}

struct Queries {
  std::int64_t begin, end;
  std::int64_t shift;  // from a query's row to its position among the keys
};

struct Pair {
  std::uint32_t query, key;  // the query counted from the first of its block
};

// The samples of a block of queries in the order of their keys, which then stream from memory: in the order of the
// queries they would jump about in all of it, three times as slow at n 32768.
std::vector<Pair> pairs_by_key(const KeySample& sample, const Queries& queries) {
  std::vector<Pair> drawn;
  std::vector<std::size_t> place(static_cast<std::size_t>(sample.keys) + 1, 0);
  for (std::int64_t i = queries.begin; i < queries.end; ++i)
    each_key(sample, i + queries.shift, [&](std::uint32_t key) {
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
void measure_block(const kernels::MeasureQueries& io, std::int64_t item, const Queries& queries,
                   std::span<const Pair> pairs) {
  using R = Wide<T>;
  const Tensor q = io.q.select(0, item), k = io.k.select(0, item), to = io.out.select(0, item);
  const std::int64_t heads = q.dim(1), group = heads / k.dim(1), d = q.dim(2);
  std::vector<Peak<R>> peaks(static_cast<std::size_t>((queries.end - queries.begin) * heads));
  for (const Pair& pair : pairs) {
    const T* query = q.data<T>() + (queries.begin + pair.query) * q.stride(0);
    const T* key = k.data<T>() + pair.key * k.stride(0);
    for (std::int64_t h = 0; h < heads; ++h) {
      Peak<R>& peak = peaks[static_cast<std::size_t>(pair.query * heads + h)];
      const R score = static_cast<R>(io.scale) * dot(query + h * q.stride(1), key + h / group * k.stride(1), d);
      peak.top = std::max(peak.top, score);
      peak.sum += score;
    }
  }
  for (std::size_t p = 0; p < peaks.size(); ++p) {
    const std::int64_t row = queries.begin + static_cast<std::int64_t>(p) / heads;
    to.data<R>()[queries.begin * heads + static_cast<std::int64_t>(p)] =
        peaks[p].top - peaks[p].sum / static_cast<R>(io.sample.terms(row + queries.shift));
  }
}

// How many of the numbers so far are at least as large, in O(log n): a Fenwick tree over their ranks.
class RunningRank {
 public:
  explicit RunningRank(const std::vector<double>& values) : order_(values.size()), counts_(values.size() + 1, 0) {
    std::vector<std::size_t> sorted(values.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    for (std::size_t r = 0; r < sorted.size(); ++r) order_[sorted[r]] = r + 1;
  }

  // Adds number i: how many before it come first, the larger and the earlier of equal ones.
  std::int64_t add(std::size_t i) {
    std::int64_t before = 0;
    for (std::size_t r = order_[i]; r > 0; r &= r - 1) before += counts_[r];
    for (std::size_t r = order_[i]; r < counts_.size(); r += r & (~r + 1)) ++counts_[r];
    return before;
  }

 private:
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> counts_;
};

}  // namespace

template <>
void kernels::measure_queries<Device::cpu>(const Context& context, const MeasureQueries& io) {
  constexpr std::int64_t kBlock = 1024;  // as many queries read each of 32768 keys twice
  const ZoneTimer timer(context.zones(), Zone::attention);
  const std::int64_t n_q = io.q.dim(1), shift = io.k.dim(1) - n_q;
  visit_float(io.q.dtype(), [&]<class T>() {
    parallel_ranges(context, n_q - io.first, kBlock, [&](std::int64_t begin, std::int64_t end) {
      const Queries queries{io.first + begin, io.first + end, shift};
      const std::vector<Pair> pairs = pairs_by_key(io.sample, queries);
      for (std::int64_t b = 0; b < io.q.dim(0); ++b) measure_block<T>(io, b, queries, pairs);
    });
  });
}

template <>
void kernels::choose_so_far<Device::cpu>(const Context& context, const ChooseSoFar& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t n = io.measures.dim(1), heads = io.measures.dim(2), columns = io.measures.dim(0) * heads;
  std::vector<std::int32_t> found(static_cast<std::size_t>(columns));
  std::fill_n(io.chosen.data<std::int32_t>(), io.chosen.numel(), -1);
  visit_wide(io.measures.dtype(), [&]<class T>() {
    parallel_for(context, columns, [&](std::int64_t column) {
      const std::int64_t at = column / heads * n * heads + column % heads;
      const T* from = io.measures.data<T>() + at;
      std::int32_t *to = io.chosen.data<std::int32_t>() + at, &count = found[static_cast<std::size_t>(column)];
      std::vector<double> values;
      for (std::int64_t i = io.first; i < n; ++i) values.push_back(static_cast<double>(from[i * heads]));
      RunningRank rank(values);
      for (std::int64_t i = 0; i < n - io.first; ++i)
        if (rank.add(static_cast<std::size_t>(i)) < kept_of(i + 1, io.factor))
          to[count++ * heads] = static_cast<std::int32_t>(io.first + i);
    });
  });
  *io.most.data<std::int32_t>() = found.empty() ? 0 : *std::max_element(found.begin(), found.end());
}

template <>
void kernels::hide_later<Device::cpu>(const Context& context, const HideLater& io) {
  const std::int64_t heads = io.bias.dim(1), m = io.bias.dim(2), n_k = io.bias.dim(3);
  visit_wide(io.bias.dtype(), [&]<class T>() {
    for_rows(context, io.bias.dim(0) * heads * m, n_k, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t b = r / (heads * m), h = r / m % heads, c = r % m;
        const std::int64_t row = io.rows.data<std::int32_t>()[(b * m + c) * heads + h];
        const std::int64_t seen = row < 0 ? n_k : std::clamp<std::int64_t>(row + io.shift + 1, 0, n_k);
        T* to = io.bias.data<T>() + r * n_k;
        std::fill_n(to, seen, T(0));
        std::fill(to + seen, to + n_k, T(-INFINITY));
      }
    });
  });
}

}  // namespace fovea
