#include "core/wide.h"
#include "mechanisms/dynamic_sparse/hashing_kernels.h"
#include "ops/cuda/sequences.cuh"
#include "policy/math.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// The first place of the largest x over a group's columns.
template <class Group, class R, class X>
__device__ std::int64_t first_largest(const Group& g, std::int64_t count, const X& x, R& largest) {
  largest = -math::kInfinity<R>;
  for (std::int64_t c = g.lane; c < count; c += g.lanes) largest = larger(x(c), largest);
  largest = g.max(largest);
  std::int64_t place = count;
  for (std::int64_t c = g.lane; c < count && place == count; c += g.lanes)
    if (x(c) == largest) place = c;
  return -g.max(-place);
}

template <class R>
void find(const Context& context, const kernels::FindBuckets& io) {
  const std::int64_t n = io.x.dim(1), heads = io.x.dim(2), width = io.x.dim(3);
  const RowOwners owners(context, *io.sequences, n);
  const RowOwners::View owner = owners.view();
  const Uploaded<std::int64_t> counts = upload(context, *io.directions);
  const std::int64_t* const directions = counts.data();
  const R* const x = io.x.data<R>();
  std::int64_t* const bucket = io.bucket.data<std::int64_t>();
  rows(context, io.bucket.numel(), width, [=] __device__(const auto& g) {
    const std::int64_t sequence = owner(g.row / heads), count = sequence < 0 ? 0 : directions[sequence];
    const R* const row = x + g.row * width;
    R high(0), low(0);
    const std::int64_t up = first_largest(
        g, count, [=](std::int64_t c) { return row[c]; }, high);
    const std::int64_t down = first_largest(
        g, count, [=](std::int64_t c) { return -row[c]; }, low);
    if (g.lane == 0) bucket[g.row] = sequence < 0 ? 0 : high >= low ? up : count + down;
  });
}

// Tokens of the chunks of all rounds.
struct RoundView {
  const std::int64_t* bucket;
  const std::int32_t *place, *both;
  void* bias;
};

struct PairView {
  const RoundView* rounds;
  const Chunks::Chunk* chunks;
  std::int64_t round_count, chunk_count, each, width, n, heads;
  bool causal, across, once;
  std::uint8_t* company;  // (rounds, b, n, heads): does a token see anyone else?

  // One token of one chunk, item and head in one round.
  struct Token {
    std::int64_t round, chunk, head, i;  // i counts in the chunk
  };
  __device__ Token token_at(std::int64_t index) const {
    return {index / (chunk_count * heads * width), index / (heads * width) % chunk_count, index / width % heads,
            index % width};
  }
  // What stands at place p of the chunk before and the chunk itself; -1: nothing.
  __device__ std::int32_t at(const Token& t, std::int64_t p) const {
    return rounds[t.round].both[(t.chunk * 2 * width + p) * heads + t.head];
  }
  __device__ std::int64_t of(const Token& t, std::int32_t token) const {
    return (t.chunk / each * n + token) * heads + t.head;
  }
  __device__ bool sees(const Token& t, std::int32_t own, std::int32_t other) const {
    if (other < 0 || (causal && other > own)) return false;
    const std::int64_t* const bucket = rounds[t.round].bucket;
    return across || bucket[of(t, own)] == bucket[of(t, other)];
  }
  // In how many rounds two tokens that see each other in this one meet.
  __device__ int meetings(const Token& t, std::int32_t own, std::int32_t other) const {
    int count = 1;
    for (std::int64_t r = 0; r < round_count; ++r) {
      if (r == t.round) continue;
      const std::int64_t a = of(t, own), b = of(t, other);
      const auto distance = static_cast<std::uint32_t>(rounds[r].place[a] / static_cast<std::int32_t>(width) -
                                                       rounds[r].place[b] / static_cast<std::int32_t>(width));
      if (distance <= 1u && (across || rounds[r].bucket[a] == rounds[r].bucket[b])) ++count;
    }
    return count;
  }
};

void find_company(const Context& context, const PairView& view, std::int64_t tokens) {
  rows(context, view.round_count * view.chunk_count * view.heads * view.width, 0, [=] __device__(const auto& g) {
    const PairView::Token t = view.token_at(g.row);
    if (t.i >= view.chunks[t.chunk].count) return;
    const std::int32_t own = view.at(t, view.width + t.i);
    int found = 0;
    for (std::int64_t p = g.lane; p < 2 * view.width && found == 0; p += g.lanes) {
      const std::int32_t other = view.at(t, p);
      if (other != own && view.sees(t, own, other)) found = 1;
    }
    found = g.max(found);
    if (g.lane == 0) view.company[t.round * tokens + view.of(t, own)] = static_cast<std::uint8_t>(found);
  });
}

template <class R>
void write_bias(const Context& context, const PairView& view, std::int64_t tokens) {
  rows(context, view.round_count * view.chunk_count * view.heads * view.width, 0, [=] __device__(const auto& g) {
    const PairView::Token t = view.token_at(g.row);
    R* const to = static_cast<R*>(view.rounds[t.round].bias) +
                  ((t.chunk * view.heads + t.head) * view.width + t.i) * 2 * view.width;
    const bool exists = t.i < view.chunks[t.chunk].count;
    const std::int32_t own = exists ? view.at(t, view.width + t.i) : -1;
    bool alone = true;
    for (std::int64_t r = 0; exists && r < view.round_count; ++r)
      alone = alone && view.company[r * tokens + view.of(t, own)] == 0;
    for (std::int64_t p = g.lane; p < 2 * view.width; p += g.lanes) {
      const std::int32_t other = view.at(t, p);
      const bool seen = exists && view.sees(t, own, other) && (alone || p != view.width + t.i);
      to[p] = !seen       ? -math::kInfinity<R>
              : view.once ? static_cast<R>(-log(static_cast<double>(view.meetings(t, own, other))))
                          : R(0);
    }
  });
}

}  // namespace

template <>
void kernels::find_buckets<Device::cuda>(const Context& context, const FindBuckets& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { find<R>(context, io); });
}

template <>
void kernels::cut_chunks<Device::cuda>(const Context& context, const CutChunks& io) {
  const std::int64_t n = io.order.dim(1), heads = io.order.dim(2), width = io.chunks->width, of_item = io.chunks->each;
  const Uploaded<Chunks::Chunk> uploaded = upload(context, io.chunks->list);
  const Chunks::Chunk* const chunks = uploaded.data();
  const std::int32_t* const order = io.order.data<std::int32_t>();
  std::int32_t *const own = io.own.data<std::int32_t>(), *const both = io.both.data<std::int32_t>(),
                      *const place = io.place.data<std::int32_t>();
  io.place.fill(-1.0);
  each(context, uploaded.size() * 2 * width * heads, [=] __device__(std::int64_t i) {
    const std::int64_t h = i % heads, p = i / heads % (2 * width), index = i / heads / (2 * width);
    const Chunks::Chunk chunk = chunks[index];
    const std::int64_t item = index / of_item, at = p - width;  // below 0: in the chunk before
    const bool exists = at < 0 ? chunk.follows : at < chunk.count;
    const std::int32_t token = exists ? order[(item * n + chunk.begin + at) * heads + h] : -1;
    both[i] = token;
    if (at < 0) return;
    own[(index * width + at) * heads + h] = token;
    if (exists) place[(item * n + token) * heads + h] = static_cast<std::int32_t>(index % of_item * width + at);
  });
}

template <>
void kernels::write_seen_pairs<Device::cuda>(const Context& context, const SeenPairs& io) {
  std::vector<RoundView> views;
  for (const HashRound& r : io.rounds)
    views.push_back(
        {r.bucket.data<std::int64_t>(), r.place.data<std::int32_t>(), r.both.data<std::int32_t>(), r.bias.raw()});
  const Uploaded<RoundView> rounds = upload(context, views);
  const Uploaded<Chunks::Chunk> chunks = upload(context, io.chunks->list);
  const Tensor& place = io.rounds[0].place;
  const Tensor company = Tensor::zeros(context, {rounds.size() * place.numel()}, DType::u8, Lifetime::scratch);
  const PairView view{rounds.data(),   chunks.data(),    rounds.size(), chunks.size(),
                      io.chunks->each, io.chunks->width, place.dim(1),  place.dim(2),
                      io.causal,       io.across,        io.once,       company.data<std::uint8_t>()};
  find_company(context, view, place.numel());
  visit_wide(io.rounds[0].bias.dtype(), [&]<class R>() { write_bias<R>(context, view, place.numel()); });
}

}  // namespace fovea
