#include <algorithm>
#include <cmath>

#include "mechanisms/dynamic_sparse/hashing_kernels.h"
#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

// A chunk of one item and head, and what it sees in every round.
class ChunkView {
 public:
  ChunkView(const kernels::SeenPairs& io, std::int64_t index, std::int64_t head)
      : io_(io),
        chunk_(io.chunks->list[static_cast<std::size_t>(index)]),
        width_(io.chunks->width),
        item_(index / io.chunks->each),
        heads_(io.rounds[0].place.dim(2)),
        first_(index % io.chunks->each * 2 * width_),
        head_(head),
        token_(size()),
        chunks_(io.rounds.size() * size()),
        buckets_(io.rounds.size() * size()) {}

  // The tokens of round r.
  void read(std::size_t r) {
    const std::int64_t n = io_.rounds[r].place.dim(1);
    const std::int32_t* both = io_.rounds[r].both.data<std::int32_t>() + item_ * io_.chunks->each * 2 * width_ * heads_;
    for (std::size_t p = 0; p < size(); ++p) {
      token_[p] = both[(first_ + static_cast<std::int64_t>(p)) * heads_ + head_];
      if (token_[p] < 0) continue;
      const std::int64_t at = (item_ * n + token_[p]) * heads_ + head_;
      for (std::size_t other = 0; other < io_.rounds.size(); ++other) {
        const kernels::HashRound& round = io_.rounds[other];
        chunks_[other * size() + p] = static_cast<std::int32_t>(round.place.data<std::int32_t>()[at] / width_);
        buckets_[other * size() + p] = static_cast<std::int32_t>(round.bucket.data<std::int64_t>()[at]);
      }
    }
  }

  std::int64_t count() const { return chunk_.count; }
  std::int32_t token(std::int64_t i) const { return token_[static_cast<std::size_t>(width_ + i)]; }
  // Of round r, as read: whether token i of the chunk sees any other.
  bool sees_others(std::size_t r, std::int64_t i) const {
    for (std::size_t p = 0; p < size(); ++p)
      if (token_[p] != token(i) && sees(r, i, p)) return true;
    return false;
  }
  // In how many rounds token i of the chunk meets each of the others; only for those that it sees in round r.
  void count_meetings(std::size_t r, std::int64_t i, std::vector<std::int32_t>& counts) const {
    counts.assign(size(), 1);
    const std::size_t own = static_cast<std::size_t>(width_ + i);
    for (std::size_t other = 0; other < io_.rounds.size(); ++other) {
      if (other == r) continue;
      const std::int32_t *chunks = &chunks_[other * size()], *buckets = &buckets_[other * size()];
      const std::int32_t chunk = chunks[own], bucket = buckets[own];
      const bool across = io_.across;
      for (std::size_t p = 0; p < counts.size(); ++p) {
        const bool near = static_cast<std::uint32_t>(chunk - chunks[p]) <= 1u;
        counts[p] += (near & (across | (bucket == buckets[p]))) ? 1 : 0;
      }
    }
  }
  bool sees(std::size_t r, std::int64_t i, std::size_t p) const {
    const std::int32_t *buckets = &buckets_[r * size()], other = token_[p];
    return other >= 0 && (!io_.causal || other <= token(i)) &&
           (io_.across || buckets[static_cast<std::size_t>(width_ + i)] == buckets[p]);
  }
  std::size_t size() const { return static_cast<std::size_t>(2 * width_); }
  bool is_self(std::int64_t i, std::size_t p) const { return static_cast<std::size_t>(width_ + i) == p; }
  std::int64_t item() const { return item_; }

 private:
  const kernels::SeenPairs& io_;
  const Chunks::Chunk& chunk_;
  std::int64_t width_, item_, heads_, first_, head_;
  std::vector<std::int32_t> token_;             // of the chunk before and of its own
  std::vector<std::int32_t> chunks_, buckets_;  // of these tokens, in every round
};

// body(chunk, head) for all of them, in parallel.
template <class Body>
void for_chunks(const Context& context, const kernels::SeenPairs& io, Body&& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t heads = io.rounds[0].place.dim(2);
  parallel_for(context, std::ssize(io.chunks->list) * heads,
               [&](std::int64_t task) { body(task / heads, task % heads); });
}

// Per round and token (b, n, heads): does it see anyone else?
using Company = std::vector<std::vector<std::uint8_t>>;

Company find_company(const Context& context, const kernels::SeenPairs& io) {
  const std::int64_t n = io.rounds[0].place.dim(1), heads = io.rounds[0].place.dim(2);
  Company company(io.rounds.size());
  for (auto& of_round : company) of_round.resize(static_cast<std::size_t>(io.rounds[0].place.numel()));
  for_chunks(context, io, [&](std::int64_t chunk, std::int64_t head) {
    ChunkView view(io, chunk, head);
    for (std::size_t r = 0; r < io.rounds.size(); ++r) {
      view.read(r);
      for (std::int64_t i = 0; i < view.count(); ++i)
        company[r][static_cast<std::size_t>((view.item() * n + view.token(i)) * heads + head)] =
            view.sees_others(r, i) ? 1 : 0;
    }
  });
  return company;
}

template <class T>
void write_bias(const Context& context, const kernels::SeenPairs& io, const Company& company) {
  const std::int64_t n = io.rounds[0].place.dim(1), heads = io.rounds[0].place.dim(2), width = io.chunks->width;
  std::vector<T> share{0};  // by the number of rounds in which a pair meets
  for (std::size_t count = 1; count <= io.rounds.size(); ++count)
    share.push_back(io.once ? static_cast<T>(-std::log(static_cast<double>(count))) : T(0));
  for_chunks(context, io, [&](std::int64_t chunk, std::int64_t head) {
    ChunkView view(io, chunk, head);
    std::vector<std::int32_t> counts;
    for (std::size_t r = 0; r < io.rounds.size(); ++r) {
      T* row = io.rounds[r].bias.data<T>() + (chunk * heads + head) * 2 * width * width;
      std::fill_n(row, 2 * width * width, T(-INFINITY));
      view.read(r);
      for (std::int64_t i = 0; i < view.count(); ++i, row += 2 * width) {
        const auto token = static_cast<std::size_t>((view.item() * n + view.token(i)) * heads + head);
        const bool alone = std::none_of(company.begin(), company.end(), [&](const auto& c) { return c[token] != 0; });
        view.count_meetings(r, i, counts);
        for (std::size_t p = 0; p < counts.size(); ++p)
          if (view.sees(r, i, p) && (alone || !view.is_self(i, p))) row[p] = share[static_cast<std::size_t>(counts[p])];
      }
    }
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
