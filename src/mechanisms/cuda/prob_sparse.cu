#include <algorithm>

#include "core/rng.h"
#include "core/wide.h"
#include "mechanisms/dynamic_sparse/prob_sparse_kernels.h"
#include "ops/cuda/packs.cuh"
#include "policy/math.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// kept_of() on the card.
__device__ std::int64_t kept(std::int64_t n, std::int64_t factor) {
  const std::int64_t wanted = factor * static_cast<std::int64_t>(ceil(log(static_cast<double>(n))));
  return wanted < 1 ? 1 : wanted > n ? n : wanted;
}

// Samples of the queries from `first` on: keys i32 (queries, most).
struct Samples {
  const std::int32_t* keys;
  std::int64_t most, first, shift, n_k, factor;
  bool prefix, all_keys;

  __device__ std::int64_t visible(std::int64_t row) const { return prefix ? row + shift + 1 : n_k; }
  __device__ std::int64_t count(std::int64_t row) const { return kept(visible(row), factor); }
  __device__ std::int64_t terms(std::int64_t row) const { return all_keys ? visible(row) : count(row); }
};

// The draws of a query, which all items and heads share.
void draw(const Context& context, const KeySample& sample, const Samples& samples, const Tensor& keys) {
  std::int32_t* const to = pointer<std::int32_t>(keys);
  const std::uint64_t seed = sample.seed, stream = sample.stream;
  each(context, keys.dim(0), [=] __device__(std::int64_t i) {
    const std::int64_t row = samples.first + i, seen = samples.visible(row), count = samples.count(row);
    Random random(seed ^ static_cast<std::uint64_t>(row + samples.shift), stream);
    for (std::int64_t c = 0; c < count; ++c)
      to[i * samples.most + c] =
          static_cast<std::int32_t>(count == seen ? c : random.below(static_cast<std::uint32_t>(seen)));
  });
}

// max - mean of the scores of a query and head: eight lanes to a key, four keys at a time.
template <class R>
struct Measure {
  static constexpr int kLanes = 8;
  Samples samples;
  HeadRows<R> q, k;
  std::int64_t heads, group, d, n_q;
  R scale;
  R* out;

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t queries = n_q - samples.first, head = g.row % heads, item = g.row / heads / queries,
                       i = g.row / heads % queries, row = samples.first + i, count = samples.count(row),
                       from = q.at(item * n_q + row, head);
    R top = -math::kInfinity<R>, total = 0;
    for (std::int64_t begin = 0; begin < count; begin += 32 / kLanes) {
      const std::int64_t c = begin + g.lane / kLanes;
      R sum = 0;
      if (c < count) {
        const std::int64_t to = k.at(item * k.n + samples.keys[i * samples.most + c], head / group);
        for (std::int64_t e = g.lane % kLanes; e < d; e += kLanes) sum += q.of[from + e] * k.of[to + e];
      }
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
      if (c >= count) continue;
      top = larger(top, scale * sum);
      if (g.lane % kLanes == 0) total += scale * sum;
    }
    top = g.max(top);
    total = g.sum(total);
    if (g.lane == 0) out[(item * n_q + row) * heads + head] = top - total / static_cast<R>(samples.terms(row));
  }
};

template <class R>
void measure(const Context& context, const kernels::MeasureQueries& io) {
  const std::int64_t n_q = io.q.dim(1), n_k = io.k.dim(1), heads = io.q.dim(2), queries = n_q - io.first;
  const bool prefix = io.sample.causal && io.sample.how.prefix;
  const std::int64_t most = kept_of(std::max<std::int64_t>(1, io.sample.keys), io.sample.how.factor);
  const Tensor keys = Tensor::empty(context, {std::max<std::int64_t>(0, queries), most}, DType::i32, Lifetime::scratch);
  const Samples samples{
      pointer<std::int32_t>(keys), most, io.first, n_k - n_q, io.sample.keys, io.sample.how.factor, prefix,
      io.sample.how.all_keys};
  draw(context, io.sample, samples, keys);
  constexpr std::int64_t kWarp = 32;
  rows(context, io.q.dim(0) * queries * heads, kWarp,
       Measure<R>{samples, HeadRows<R>(io.q), HeadRows<R>(io.k), heads, heads / io.k.dim(2), io.q.dim(3), n_q,
                  static_cast<R>(io.scale), pointer<R>(io.out)});
}

// flags u8 (b, n, heads): whether a row is among the largest of those up to it. A warp counts those that come first
// until there are too many.
template <class R>
struct FindChosen {
  const R* measures;
  std::uint8_t* flags;
  std::int64_t n, heads, first, factor;

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t rows = n - first, head = g.row % heads, i = g.row / heads % rows, item = g.row / heads / rows;
    const R* column = measures + (item * n + first) * heads + head;
    const std::int64_t room = kept(i + 1, factor);
    const R own = column[i * heads];
    std::int64_t before = 0;
    for (std::int64_t begin = 0; begin < i && before < room; begin += 32) {
      const bool is_larger = begin + g.lane < i && column[(begin + g.lane) * heads] >= own;
      before += __popc(__ballot_sync(0xffffffffu, is_larger));
    }
    if (g.lane == 0) flags[(item * n + first + i) * heads + head] = before < room ? 1 : 0;
  }
};

// The flagged rows of a column from the front; a warp goes through it.
struct Gather {
  const std::uint8_t* flags;
  std::int32_t *chosen, *counts;
  std::int64_t n, heads, first;

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t column = g.row / heads * n * heads + g.row % heads;
    std::int64_t count = 0;
    for (std::int64_t begin = first; begin < n; begin += 32) {
      const std::int64_t i = begin + g.lane;
      const bool is_chosen = i < n && flags[column + i * heads] != 0;
      const unsigned all = __ballot_sync(0xffffffffu, is_chosen), earlier = all & ((1u << g.lane % 32) - 1);
      if (is_chosen) chosen[column + (count + __popc(earlier)) * heads] = static_cast<std::int32_t>(i);
      count += __popc(all);
    }
    if (g.lane == 0) counts[g.row] = static_cast<std::int32_t>(count);
  }
};

template <class R>
void choose(const Context& context, const kernels::ChooseSoFar& io) {
  const std::int64_t n = io.measures.dim(1), heads = io.measures.dim(2), columns = io.measures.dim(0) * heads;
  constexpr std::int64_t kWarp = 32;
  const Tensor flags = Tensor::empty(context, io.measures.shape(), DType::u8, Lifetime::scratch),
               counts = Tensor::empty(context, {columns}, DType::i32, Lifetime::scratch);
  io.chosen.fill(-1.0);
  rows(context, columns * (n - io.first), kWarp,
       FindChosen<R>{pointer<R>(io.measures), pointer<std::uint8_t>(flags), n, heads, io.first, io.factor});
  std::int32_t *const of_column = pointer<std::int32_t>(counts), *const most = pointer<std::int32_t>(io.most);
  rows(context, columns, kWarp,
       Gather{pointer<std::uint8_t>(flags), pointer<std::int32_t>(io.chosen), of_column, n, heads, io.first});
  rows(context, 1, columns, [=] __device__(const auto& g) {
    std::int32_t top = 0;
    for (std::int64_t i = g.lane; i < columns; i += g.lanes) top = top < of_column[i] ? of_column[i] : top;
    top = g.max(top);
    if (g.lane == 0) *most = top;
  });
}

template <class R>
void hide(const Context& context, const kernels::HideLater& io) {
  const std::int64_t heads = io.bias.dim(1), m = io.bias.dim(2), n_k = io.bias.dim(3), shift = io.shift;
  const std::int32_t* const rows = pointer<std::int32_t>(io.rows);
  R* const bias = pointer<R>(io.bias);
  each(context, io.bias.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t key = i % n_k, c = i / n_k % m, h = i / n_k / m % heads, b = i / n_k / m / heads;
    const std::int64_t row = rows[(b * m + c) * heads + h];
    bias[i] = row < 0 || key <= row + shift ? R(0) : -math::kInfinity<R>;
  });
}

}  // namespace

template <>
void kernels::measure_queries<Device::cuda>(const Context& context, const MeasureQueries& io) {
  visit_wide(io.q.dtype(), [&]<class R>() { measure<R>(context, io); });
}

template <>
void kernels::choose_so_far<Device::cuda>(const Context& context, const ChooseSoFar& io) {
  visit_wide(io.measures.dtype(), [&]<class R>() { choose<R>(context, io); });
}

template <>
void kernels::hide_later<Device::cuda>(const Context& context, const HideLater& io) {
  visit_wide(io.bias.dtype(), [&]<class R>() { hide<R>(context, io); });
}

}  // namespace fovea
