#pragma once

#include "core/cuda/mma.cuh"
#include "tile/cuda/fragment_weights.cuh"

// What the tensor-core kernels share: walking over a list, masks of fragments, weights of fragments, results.
namespace fovea::tile::cuda {

using namespace device;  // NOLINT: what the engines on a card share

inline constexpr int kBlock = 64;  // rows of a plan's block

// One streamed block after the other, head by head.
struct Walk {
  const ListView::Entry* entries;
  const Item& item;
  std::int32_t index, offset, left, head, last_head;
  ListView::Entry entry;

  __device__ Walk(const ListView& list, const Item& item, std::int32_t first_head, std::int32_t heads)
      : entries(list.entries),
        item(item),
        head(first_head),
        last_head(item.blocks > 0 ? first_head + heads : first_head) {
    open();
  }
  __device__ bool done() const { return head >= last_head; }
  __device__ std::int32_t block() const { return entry.block + offset; }
  __device__ void next() {
    if (--left == 0) {
      ++head;
      open();
    } else if (++offset == entry.count) {
      offset = 0;
      entry = entries[++index];
    }
  }

 private:
  __device__ void open() {
    index = item.begin;
    offset = item.skip;
    left = item.blocks;
    if (!done()) entry = entries[index];
  }
};

// A piece's rows of one head of an array.
template <class T>
struct Source {
  const T* data;
  std::int64_t stride;
};
template <class T>
__device__ Source<T> source_of(const In& array, const PieceView& piece, std::int32_t head, bool of_keys) {
  const std::int64_t row = of_keys ? piece.k0 : piece.q0, step = of_keys ? piece.k_step : piece.q_step;
  return {static_cast<const T*>(array.data) + offset_of(array, piece.batch, row, head), array.row * step};
}

// A streamed block that is on its way: written where it is fetched, read where it has arrived.
struct Arrival {
  std::int32_t block, head, mask[2];
};

// Which of 32 streamed rows, from row `32 part` of a block on, each of a lane's own rows keeps.
template <int kTiles>
struct FragmentMask {
  std::uint32_t row[kTiles][2];
  bool is_whole;

  // `mask` of the list; `first`: the warp's first row in its own block; `streamed`: how many of the block's rows exist.
  __device__ __forceinline__ FragmentMask(const ListView& list, std::int32_t mask, int first, int part,
                                          std::int64_t streamed) {
    is_whole = mask == Plan::kWhole && streamed >= kBlock;
    if (is_whole) return;
    const std::int64_t left = streamed - 32 * part;
    const std::uint32_t exist = left >= 32 ? ~0u : (left > 0 ? (1u << left) - 1 : 0u);
    const auto* words = reinterpret_cast<const std::uint32_t*>(list.masks);
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t i = std::int64_t{mask} * kBlock + first + t * 16 + lane() / 4 + half * 8;
        row[t][half] = mask == Plan::kWhole ? exist : exist & words[2 * i + part];
      }
  }
  // Element e of the fragment of columns [column, column + 8) of these 32.
  __device__ __forceinline__ bool keeps(int t, int column, int e) const {
    return (row[t][e / 2] >> (column + column_of(e)) & 1) != 0;
  }
};

// Weights with every option, chosen at run time; for the kernels that are general.
struct FragmentWeights {
  Shares<float> shares;
  Points<float> points;
  bool has_top;

  __device__ explicit FragmentWeights(const Call& call)
      : shares(call), points(call), has_top(has_statistic(call.weight)) {}
  __device__ float weigh(float score, float top, float& sum) const {
    if (!has_top) return points.weigh(score, {}, {});
    const float share = Softmax::weigh(score, top);
    sum += share;
    return shares.weight(score, share);
  }
  __device__ Weighed<float> vjp(float score, float grad, const RowStatistic<float>& row) const {
    return has_top ? shares.vjp(score, grad, row, {}) : points.vjp(score, grad, {}, {});
  }
};

// The weight of a pair and the gradient of its score, with every option.
struct PairGradient {
  FragmentWeights weights;
  Modifier<float> modify;
  FragmentBias bias;
  FragmentDropper drop;
  const Call& call;
  const RowStatistic<float>* rows;  // of the head's queries, where the weight has a statistic

  __device__ PairGradient(const Call& call, const PieceView& piece, std::int32_t head)
      : weights(call), modify(call, piece, head), bias(call, piece, head), drop(call, piece, head), call(call) {
    rows = call.statistics == nullptr
               ? nullptr
               : static_cast<const RowStatistic<float>*>(call.statistics) + head * call.rows + piece.first_row;
  }
  // Products and gradients of weights become weights and gradients of scores; both are zero where a pair is not kept,
  // or hidden by a bias. kept(e): of element e. terms(e): of the row of its query; read where it is kept.
  template <bool kByColumns, class Kept, class Terms>
  __device__ __forceinline__ void apply(Pair first, const Kept& kept, const Terms& terms, float (&s)[4],
                                        float (&g)[4]) const {
    float factors[4] = {1, 1, 1, 1};
    if (call.has_dropout) drop.draw<kByColumns>(first, factors);
#pragma unroll
    for (int e = 0; e < 4; ++e) s[e] = kept(e) ? s[e] : -math::kInfinity<float>;
    if (call.is_shaped) return of_softmax<kByColumns>(first, terms, factors, s, g);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float score = kept(e) ? modify(s[e], FragmentDropper::at<kByColumns>(first, e)) : s[e];
      const bool counts = score != -math::kInfinity<float>;
      const RowStatistic<float> row = counts && rows != nullptr ? terms(e) : Shares<float>::nothing();
      const Weighed<float> w = weights.vjp(score, g[e] * factors[e], row);
      s[e] = counts ? w.weight * factors[e] : 0.0f;
      g[e] = counts ? w.gradient : 0.0f;
    }
  }
  __device__ __forceinline__ RowStatistic<float> terms_of(std::int64_t query) const { return rows[query]; }

 private:
  template <bool kByColumns, class Terms>
  __device__ __forceinline__ void of_softmax(Pair first, const Terms& terms, const float (&factors)[4], float (&s)[4],
                                             float (&g)[4]) const {
    bias.apply<kByColumns>(first, s);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool counts = s[e] != -math::kInfinity<float>;
      const RowStatistic<float> row = counts ? terms(e) : Shares<float>::nothing();
      const float share = quick_exp2(s[e] - row.reopened);
      g[e] = share == 0 ? 0.0f : share * (g[e] * factors[e] - row.delta);
      s[e] = share * factors[e];
    }
  }
};

// Writes a warp's own rows, kTiles x 16 of them, through shared memory that nobody else uses.
struct RowTarget {
  void* data;
  std::int64_t offset, stride;  // of the own tile's first row
  std::int32_t count, width;    // rows that exist, halves of a row
};
template <class T, int kWidth, int kTiles>
__device__ __forceinline__ void store_own(const SharedTile<kWidth>& room, const RowTarget& to,
                                          const float (&acc)[kTiles][kWidth / 8][4]) {
  const int first = warp() * 16 * kTiles;
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t at = room.at(first + t * 16 + lane() / 4 + half * 8, n) + lane() % 4 * 4;
        store_shared(pack<T>(acc[t][n][2 * half], acc[t][n][2 * half + 1]), at);
      }
  __syncwarp();
  constexpr int kPieces = kWidth / 8;
  for (int e = lane(); e < 16 * kTiles * kPieces; e += 32) {
    const int row = first + e / kPieces, piece = e % kPieces;
    if (row >= to.count || piece * 8 >= to.width) continue;
    std::uint32_t r[4];
    load_shared(r, room.at(row, piece));
    *reinterpret_cast<uint4*>(static_cast<T*>(to.data) + to.offset + row * to.stride + piece * 8) = {r[0], r[1], r[2],
                                                                                                     r[3]};
  }
  __syncwarp();
}

// The same in f32: four lanes have 32 bytes of a row.
template <int kWidth, int kTiles>
__device__ __forceinline__ void store_wide(const RowTarget& to, const float (&acc)[kTiles][kWidth / 8][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (warp() * kTiles + t) * 16 + lane() / 4 + half * 8;
      if (row >= to.count) continue;
      float* const at = static_cast<float*>(to.data) + to.offset + row * to.stride + column_of(0);
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n)
        if (8 * n < to.width) *reinterpret_cast<float2*>(at + 8 * n) = {acc[t][n][2 * half], acc[t][n][2 * half + 1]};
    }
}

// The same in panels, of half types.
template <class T, int kWidth, int kRows>
__device__ __forceinline__ void store_own(const PanelTile<kWidth, kRows>& room, RowTarget to,
                                          const float (&acc)[1][kWidth / 8][4]) {
  constexpr int kColumns = PanelTile<kWidth>::kColumns, kFragments = kColumns / 8;
#pragma unroll
  for (int p = 0; p < PanelTile<kWidth>::kPanels; ++p, to.offset += kColumns, to.width -= kColumns) {
    float part[1][kFragments][4];
#pragma unroll
    for (int n = 0; n < kFragments; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) part[0][n][e] = acc[0][kFragments * p + n][e];
    store_own<T, kColumns, 1>(room.panel(p), to, part);
  }
}

// Tells the portable kernels whether this block has to be done again.
__device__ __forceinline__ void report(const Call& call, const Item& item, bool strange) {
  if (call.flags == nullptr) return;
  const int any = __syncthreads_or(strange ? 1 : 0);
  if (threadIdx.x == 0) call.flags[item.flag * gridDim.y + blockIdx.y] = static_cast<std::uint32_t>(any);
}

// Leaves a warp's sums where the parts of a list are put together.
template <int kWidth, int kTiles>
__device__ __forceinline__ void leave_sums(float* to, std::int64_t columns, int count,
                                           const float (&acc)[kTiles][kWidth / 8][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp() * 16 * kTiles + t * 16 + lane() / 4 + half * 8;
        if (row < count)
          *reinterpret_cast<float2*>(to + row * columns + 8 * n + lane() % 4 * 2) = {acc[t][n][2 * half],
                                                                                     acc[t][n][2 * half + 1]};
      }
}

}  // namespace fovea::tile::cuda
