#include <vector>

#include "core/wide.h"
#include "mechanisms/dynamic_sparse/hashing_kernels.h"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/listed_rows.cuh"
#include "policy/math.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void find(const Context& context, const kernels::FindBuckets& io) {
  const ListedRows listed(context, *io.sequences, io.x.shape());
  const auto directions = upload(context, *io.directions);
  const ListedRows::View view = listed.view();
  const std::int64_t* const counts = directions.data();
  const R* const x = pointer<R>(io.x);
  std::int64_t* const bucket = pointer<std::int64_t>(io.bucket);
  const std::int64_t heads = io.x.dim(2), width = io.x.dim(3);
  if (!view.covers) io.bucket.fill(0.0);
  rows(context, listed.rows() * heads, width, [=] __device__(const auto& g) {
    const ListedSequence& sequence = view.sequence(g.row / heads);
    const std::int64_t row = sequence.first + g.row / heads - sequence.before, at = row * heads + g.row % heads;
    const std::int64_t count = counts[sequence.number];
    const R* own = x + at * width;
    const auto high = largest_of<R>(g, count, [&](std::int64_t l) { return own[l]; });
    const auto low = largest_of<R>(g, count, [&](std::int64_t l) { return -own[l]; });
    if (g.lane == 0) bucket[at] = high.value >= low.value ? high.place : count + low.place;
  });
}

// A round's tensors.
struct RoundView {
  const std::int64_t* bucket;
  const std::int32_t *place, *both;
  void* bias;
};

std::vector<RoundView> views_of(const kernels::SeenPairs& io) {
  std::vector<RoundView> views;
  for (const kernels::HashRound& round : io.rounds)
    views.push_back({pointer<std::int64_t>(round.bucket), pointer<std::int32_t>(round.place),
                     pointer<std::int32_t>(round.both), round.bias.raw()});
  return views;
}

// Places of chunks: a chunk and the one before, of one head in one round.
struct ChunkWalk {
  const RoundView* rounds;
  const Chunks::Chunk* chunks;
  std::int64_t round_count, chunk_count, each, width, heads, n;
  bool causal, across;

  // Tokens, -1 for none: place p of the chunk before and its own, 2 width of them.
  __device__ std::int32_t token(std::int64_t r, std::int64_t chunk, std::int64_t head, std::int64_t p) const {
    return rounds[r].both[(chunk * 2 * width + p) * heads + head];
  }
  __device__ std::int64_t element(std::int64_t chunk, std::int64_t head, std::int32_t token) const {
    return (chunk / each * n + token) * heads + head;  // of (b, n, heads)
  }
  // Whether one token, at the elements of its places, sees another in round r.
  __device__ bool sees(std::int64_t r, std::int32_t from, std::int32_t to, std::int64_t at, std::int64_t other) const {
    return to >= 0 && (!causal || to <= from) && (across || rounds[r].bucket[at] == rounds[r].bucket[other]);
  }
};

// company u8 (b, n, heads): set where a token sees another in any round.
void find_company(const Context& context, const ChunkWalk& walk, const Tensor& company) {
  std::uint8_t* const found = pointer<std::uint8_t>(company);
  rows(context, walk.round_count * walk.chunk_count * walk.heads * walk.width, 2 * walk.width,
       [=] __device__(const auto& g) {
         const std::int64_t i = g.row % walk.width, head = g.row / walk.width % walk.heads,
                            chunk = g.row / walk.width / walk.heads % walk.chunk_count,
                            r = g.row / walk.width / walk.heads / walk.chunk_count;
         if (i >= walk.chunks[chunk].count) return;
         const std::int32_t from = walk.token(r, chunk, head, walk.width + i);
         const std::int64_t at = walk.element(chunk, head, from);
         bool sees = false;
         for (std::int64_t p = g.lane; p < 2 * walk.width; p += g.lanes) {
           const std::int32_t to = walk.token(r, chunk, head, p);
           if (to < 0 || p == walk.width + i) continue;
           sees = sees || walk.sees(r, from, to, at, walk.element(chunk, head, to));
         }
         if (sees) found[at] = 1;  // whoever finds it, says the same
       });
}

template <class R>
void write_bias(const Context& context, const ChunkWalk& walk, const Tensor& company, bool once) {
  const std::uint8_t* const has_company = pointer<std::uint8_t>(company);
  const std::int64_t row = 2 * walk.width, of_head = row * walk.width,
                     of_round = walk.chunk_count * walk.heads * of_head;
  each(context, walk.round_count * of_round, [=] __device__(std::int64_t index) {
    const std::int64_t r = index / of_round, chunk = index % of_round / of_head / walk.heads,
                       head = index / of_head % walk.heads, i = index % of_head / row, p = index % row;
    int meetings = 0;
    if (i < walk.chunks[chunk].count) {
      const std::int32_t from = walk.token(r, chunk, head, walk.width + i), to = walk.token(r, chunk, head, p);
      const std::int64_t at = walk.element(chunk, head, from), other = walk.element(chunk, head, to < 0 ? from : to);
      const bool alone = p == walk.width + i && has_company[at] != 0;
      meetings = !alone && walk.sees(r, from, to, at, other) ? 1 : 0;
      for (std::int64_t s = 0; meetings > 0 && s < walk.round_count; ++s) {
        if (s == r) continue;
        const RoundView& round = walk.rounds[s];
        const std::int64_t back = round.place[at] / walk.width - round.place[other] / walk.width;
        if ((back == 0 || back == 1) && (walk.across || round.bucket[at] == round.bucket[other])) ++meetings;
      }
    }
    R value = -math::kInfinity<R>;
    if (meetings > 0) value = once ? static_cast<R>(-log(static_cast<double>(meetings))) : R(0);
    static_cast<R*>(walk.rounds[r].bias)[index % of_round] = value;
  });
}

}  // namespace

template <>
void kernels::find_buckets<Device::cuda>(const Context& context, const FindBuckets& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { find<R>(context, io); });
}

template <>
void kernels::cut_chunks<Device::cuda>(const Context& context, const CutChunks& io) {
  const auto list = upload(context, io.chunks->list);
  const Chunks::Chunk* const chunks = list.data();
  const std::int64_t n = io.order.dim(1), heads = io.order.dim(2), width = io.chunks->width, of_item = io.chunks->each;
  const std::int32_t* const order = pointer<std::int32_t>(io.order);
  std::int32_t *const own = pointer<std::int32_t>(io.own), *const both = pointer<std::int32_t>(io.both),
                      *const place = pointer<std::int32_t>(io.place);
  io.place.fill(-1.0);
  each(context, list.size() * 2 * width * heads, [=] __device__(std::int64_t i) {
    const std::int64_t head = i % heads, p = i / heads % (2 * width), index = i / heads / (2 * width),
                       item = index / of_item, in_chunk = p - width;
    const Chunks::Chunk chunk = chunks[index];
    const bool exists = in_chunk < 0 ? chunk.follows : in_chunk < chunk.count;
    const std::int32_t token = exists ? order[(item * n + chunk.begin + in_chunk) * heads + head] : -1;
    both[i] = token;
    if (in_chunk < 0) return;
    own[(index * width + in_chunk) * heads + head] = token;
    if (token >= 0)
      place[(item * n + token) * heads + head] = static_cast<std::int32_t>(index % of_item * width + in_chunk);
  });
}

template <>
void kernels::write_seen_pairs<Device::cuda>(const Context& context, const SeenPairs& io) {
  const auto rounds = upload(context, views_of(io));
  const auto chunks = upload(context, io.chunks->list);
  const Tensor& place = io.rounds[0].place;
  const ChunkWalk walk{rounds.data(),    chunks.data(), rounds.size(), chunks.size(), io.chunks->each,
                       io.chunks->width, place.dim(2),  place.dim(1),  io.causal,     io.across};
  const Tensor company = Tensor::zeros(context, place.shape(), DType::u8, Lifetime::scratch);
  find_company(context, walk, company);
  visit_wide(io.rounds[0].bias.dtype(), [&]<class R>() { write_bias<R>(context, walk, company, io.once); });
}

}  // namespace fovea
