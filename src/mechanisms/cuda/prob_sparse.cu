#include <algorithm>

#include "core/rng.h"
#include "core/wide.h"
#include "mechanisms/cuda/head_rows.cuh"
#include "mechanisms/dynamic_sparse/prob_sparse_kernels.h"
#include "policy/math.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// What a query is measured on.
struct Sample {
  std::int64_t seen, count, terms;
};

std::vector<Sample> samples_of(const kernels::MeasureQueries& io) {
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < io.q.dim(1); ++i) {
    const std::int64_t position = i + io.k.dim(1) - io.q.dim(1);
    const std::int64_t seen = i < io.first ? 0 : io.sample.visible(position);
    samples.push_back(i < io.first ? Sample{0, 0, 1}
                                   : Sample{seen, kept_of(seen, io.sample.how.factor), io.sample.terms(position)});
  }
  return samples;
}

// A warp for each item, query and head; all lanes draw the same keys.
template <class R>
void measure(const Context& context, const kernels::MeasureQueries& io) {
  const std::int64_t n = io.q.dim(1), heads = io.q.dim(2), d = io.q.dim(3), first = io.first, shift = io.k.dim(1) - n;
  const std::int64_t group = heads / io.k.dim(2);
  const Uploaded<Sample> uploaded = upload(context, samples_of(io));
  const Sample* const samples = uploaded.data();
  const Elements<R> q = elements<R>(io.q), k = elements<R>(io.k);
  const HeadRows of_q(io.q), of_k(io.k);
  const auto scale = static_cast<R>(io.scale);
  const std::uint64_t seed = io.sample.seed, stream = io.sample.stream;
  R* const out = io.out.data<R>();
  rows(context, io.out.numel(), 0, [=] __device__(const auto& g) {
    const std::int64_t head = g.row % heads, i = g.row / heads % n, item = g.row / heads / n;
    if (i < first) return;
    const Sample sample = samples[i];
    Random random(seed ^ static_cast<std::uint64_t>(i + shift), stream);
    const std::int64_t query = of_q.at(item, i, head);
    R top = -math::kInfinity<R>, sum(0);
    for (std::int64_t c = 0; c < sample.count; ++c) {
      const std::int64_t key = sample.count == sample.seen ? c : random.below(static_cast<std::uint32_t>(sample.seen));
      const std::int64_t at = of_k.at(item, key, head / group);
      R dot(0);
      for (std::int64_t e = g.lane; e < d; e += g.lanes) dot += q[query + e] * k[at + e];
      const R score = scale * g.sum(dot);
      top = score > top ? score : top;
      sum += score;
    }
    if (g.lane == 0) out[g.row] = top - sum / static_cast<R>(sample.terms);
  });
}

// flags (b, n, heads): is row i among the best of those from `first` up to it? Its rank is counted.
template <class R>
void choose(const Context& context, const kernels::ChooseSoFar& io) {
  const std::int64_t n = io.measures.dim(1), heads = io.measures.dim(2), first = io.first;
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < n; ++i) kept.push_back(i < first ? 0 : kept_of(i - first + 1, io.factor));
  const Uploaded<std::int64_t> uploaded = upload(context, kept);
  const std::int64_t* const most_of = uploaded.data();
  const R* const measures = io.measures.data<R>();
  const Tensor flags = Tensor::empty(context, io.measures.shape(), DType::u8, Lifetime::scratch);
  std::uint8_t* const flag = flags.data<std::uint8_t>();
  each(context, io.measures.numel(), [=] __device__(std::int64_t at) {
    const std::int64_t i = at / heads % n;
    const R own = measures[at];
    std::int64_t before = 0;
    for (std::int64_t j = first; j < i; ++j) before += measures[at - (i - j) * heads] >= own ? 1 : 0;
    flag[at] = i >= first && before < most_of[i] ? 1 : 0;
  });
  io.chosen.fill(-1.0);
  io.most.fill(0.0);
  std::int32_t *const chosen = io.chosen.data<std::int32_t>(), *const most = io.most.data<std::int32_t>();
  rows(context, io.measures.dim(0) * heads, 0, [=] __device__(const auto& g) {  // a warp
    const std::int64_t at = g.row / heads * n * heads + g.row % heads;
    std::int32_t count = 0;
    for (std::int64_t begin = first; begin < n; begin += 32) {
      const std::int64_t i = begin + g.lane;
      const bool is_chosen = i < n && flag[at + i * heads] != 0;
      const unsigned all = __ballot_sync(0xffffffffu, is_chosen);
      const std::int32_t mine = count + __popc(all & ((1u << g.lane) - 1u));
      if (is_chosen) chosen[at + mine * heads] = static_cast<std::int32_t>(i);
      count += __popc(all);
    }
    if (g.lane == 0) atomicMax(most, count);  // the same in any order
  });
}

template <class R>
void hide(const Context& context, const kernels::HideLater& io) {
  const std::int64_t heads = io.bias.dim(1), m = io.bias.dim(2), n_k = io.bias.dim(3), shift = io.shift;
  const std::int32_t* const from = io.rows.data<std::int32_t>();
  R* const bias = io.bias.data<R>();
  each(context, io.bias.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t key = i % n_k, r = i / n_k, b = r / (heads * m), h = r / m % heads, c = r % m;
    const std::int64_t row = from[(b * m + c) * heads + h];
    bias[i] = row >= 0 && key > row + shift ? -math::kInfinity<R> : R(0);
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
