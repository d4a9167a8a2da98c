#include <algorithm>
#include <cmath>
#include <limits>

#include "mechanisms/dynamic_sparse/hashing_kernels.h"
#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

// A chunk of one item and head in round r: itself and the chunk before, place by place.
class ChunkView {
 public:
  ChunkView(const kernels::SeenPairs& io, std::size_t r, std::int64_t index, std::int64_t head)
      : io_(io), r_(r), width_(io.chunks->width), item_(index / io.chunks->each), head_(head), token_(size()) {
    const std::int64_t heads = io.rounds[r].place.dim(2);
    const std::int32_t* both = io.rounds[r].both.data<std::int32_t>() + index * 2 * width_ * heads + head;
    for (std::size_t p = 0; p < size(); ++p) token_[p] = both[static_cast<std::int64_t>(p) * heads];
    count_ = io.chunks->list[static_cast<std::size_t>(index)].count;
  }

  std::int64_t count() const { return count_; }
  // Where token i of the chunk stands among the places, and in (b, n, heads).
  std::size_t own(std::int64_t i) const { return static_cast<std::size_t>(width_ + i); }
  std::size_t element(std::size_t p) const {
    const Tensor& place = io_.rounds[r_].place;
    return static_cast<std::size_t>((item_ * place.dim(1) + token_[p]) * place.dim(2) + head_);
  }
  // The buckets of the tokens in this round, and the chunks and buckets in the others.
  void read_rounds() {
    for (std::size_t other = 0; other < io_.rounds.size(); ++other) {
      const std::int32_t* place = io_.rounds[other].place.data<std::int32_t>();
      const std::int64_t* bucket = io_.rounds[other].bucket.data<std::int64_t>();
      chunks_.emplace_back(size(), -2);
      buckets_.emplace_back(size(), -1);
      for (std::size_t p = 0; p < size(); ++p) {
        if (token_[p] < 0) continue;
        chunks_[other][p] = static_cast<std::int32_t>(place[element(p)] / width_);
        buckets_[other][p] = static_cast<std::int32_t>(bucket[element(p)]);
      }
    }
  }
  // In how many rounds token i meets those that it sees in this one; 0 for the others.
  void count_meetings(std::int64_t i, std::vector<std::int32_t>& counts) const {
    const std::int32_t last = io_.causal ? token_[own(i)] : std::numeric_limits<std::int32_t>::max(),
                       across = io_.across ? 1 : 0;
    const std::int32_t *tokens = token_.data(), *buckets = buckets_[r_].data(), bucket = buckets[own(i)];
    std::int32_t* to = counts.data();
    const std::size_t places = size();
    for (std::size_t p = 0; p < places; ++p) to[p] = 1;
    for (std::size_t other = 0; other < io_.rounds.size(); ++other) {
      if (other == r_) continue;
      const std::int32_t *there = chunks_[other].data(), *alike = buckets_[other].data(), chunk = there[own(i)],
                         like = alike[own(i)];
      for (std::size_t p = 0; p < places; ++p) {
        const std::int32_t back = chunk - there[p];
        to[p] += ((back == 0) | (back == 1)) & (across | (alike[p] == like));
      }
    }
    for (std::size_t p = 0; p < places; ++p)
      to[p] *= (tokens[p] >= 0) & (tokens[p] <= last) & (across | (buckets[p] == bucket));
  }
  // Whether token i sees any other in this round.
  bool sees_others(std::int64_t i) const {
    const std::int64_t* bucket = io_.rounds[r_].bucket.data<std::int64_t>();
    for (std::size_t p = 0; p < size(); ++p)
      if (p != own(i) && token_[p] >= 0 && (!io_.causal || token_[p] <= token_[own(i)]) &&
          (io_.across || bucket[element(p)] == bucket[element(own(i))]))
        return true;
    return false;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(2 * width_); }

  const kernels::SeenPairs& io_;
  std::size_t r_;
  std::int64_t width_, item_, head_, count_ = 0;
  std::vector<std::int32_t> token_;                          // -1: none
  std::vector<std::vector<std::int32_t>> chunks_, buckets_;  // of the tokens, in every round
};

// body(round, chunk, head) for all of them, in parallel.
template <class Body>
void for_chunks(const Context& context, const kernels::SeenPairs& io, Body&& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t heads = io.rounds[0].place.dim(2), each = std::ssize(io.chunks->list) * heads;
  parallel_for(context, std::ssize(io.rounds) * each, [&](std::int64_t task) {
    body(static_cast<std::size_t>(task / each), task % each / heads, task % heads);
  });
}

// Per round and token (b, n, heads): does it see anyone else?
using Company = std::vector<std::vector<std::uint8_t>>;

Company find_company(const Context& context, const kernels::SeenPairs& io) {
  Company company(io.rounds.size());
  for (auto& of_round : company) of_round.resize(static_cast<std::size_t>(io.rounds[0].place.numel()));
  for_chunks(context, io, [&](std::size_t r, std::int64_t chunk, std::int64_t head) {
    const ChunkView view(io, r, chunk, head);
    for (std::int64_t i = 0; i < view.count(); ++i) company[r][view.element(view.own(i))] = view.sees_others(i) ? 1 : 0;
  });
  return company;
}

template <class T>
void write_bias(const Context& context, const kernels::SeenPairs& io, const Company& company) {
  const std::int64_t heads = io.rounds[0].place.dim(2), width = io.chunks->width;
  std::vector<T> share{T(-INFINITY)};  // by the number of rounds in which a pair meets
  for (std::size_t count = 1; count <= io.rounds.size(); ++count)
    share.push_back(io.once ? static_cast<T>(-std::log(static_cast<double>(count))) : T(0));
  for_chunks(context, io, [&](std::size_t r, std::int64_t chunk, std::int64_t head) {
    ChunkView view(io, r, chunk, head);
    view.read_rounds();
    std::vector<std::int32_t> counts(static_cast<std::size_t>(2 * width));
    T* row = io.rounds[r].bias.data<T>() + (chunk * heads + head) * 2 * width * width;
    for (std::int64_t i = 0; i < view.count(); ++i, row += 2 * width) {
      view.count_meetings(i, counts);
      const std::size_t own = view.own(i), token = view.element(own);
      if (std::any_of(company.begin(), company.end(), [&](const auto& c) { return c[token] != 0; })) counts[own] = 0;
      for (std::size_t p = 0; p < counts.size(); ++p) row[p] = share[static_cast<std::size_t>(counts[p])];
    }
    std::fill_n(row, (width - view.count()) * 2 * width, T(-INFINITY));
  });
}

}  // namespace

template <>
void kernels::find_buckets<Device::cpu>(const Context& context, const FindBuckets& io) {
  const std::int64_t n = io.x.dim(1), heads = io.x.dim(2), width = io.x.dim(3);
  auto* bucket = io.bucket.data<std::int64_t>();
  if (!covers(*io.sequences, io.x.shape())) std::fill_n(bucket, io.bucket.numel(), std::int64_t{0});
  visit_wide(io.x.dtype(), [&]<class T>() {
    for (std::size_t s = 0; s < io.sequences->size(); ++s) {
      const auto& [item, begin, rows] = (*io.sequences)[s];
      const std::int64_t first = (item * n + begin) * heads, count = (*io.directions)[s];
      for_rows(context, rows * heads, width, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t row = first + from; row < first + to; ++row) {
          const T* x = io.x.data<T>() + row * width;
          const std::int64_t high = std::max_element(x, x + count) - x, low = std::min_element(x, x + count) - x;
          bucket[row] = x[high] >= -x[low] ? high : count + low;
        }
      });
    }
  });
}

template <>
void kernels::cut_chunks<Device::cpu>(const Context& context, const CutChunks& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t n = io.order.dim(1), heads = io.order.dim(2), width = io.chunks->width;
  std::fill_n(io.place.data<std::int32_t>(), io.place.numel(), -1);
  parallel_for(context, std::ssize(io.chunks->list), [&](std::int64_t index) {
    const Chunks::Chunk& chunk = io.chunks->list[static_cast<std::size_t>(index)];
    const std::int64_t item = index / io.chunks->each, begin = index % io.chunks->each * width;
    const std::int32_t* order = io.order.data<std::int32_t>() + item * n * heads;
    std::int32_t *own = io.own.data<std::int32_t>() + index * width * heads,
                 *both = io.both.data<std::int32_t>() + index * 2 * width * heads,
                 *place = io.place.data<std::int32_t>() + item * n * heads;
    std::fill_n(both, 2 * width * heads, -1);
    if (chunk.follows) std::copy_n(order + (chunk.begin - width) * heads, width * heads, both);
    std::copy_n(order + chunk.begin * heads, chunk.count * heads, both + width * heads);
    std::copy_n(both + width * heads, width * heads, own);
    for (std::int64_t i = 0; i < chunk.count * heads; ++i)
      place[own[i] * heads + i % heads] = static_cast<std::int32_t>(begin + i / heads);
  });
}

template <>
void kernels::write_seen_pairs<Device::cpu>(const Context& context, const SeenPairs& io) {
  const Company company = find_company(context, io);
  visit_wide(io.rounds[0].bias.dtype(), [&]<class T>() { write_bias<T>(context, io, company); });
}

}  // namespace fovea
