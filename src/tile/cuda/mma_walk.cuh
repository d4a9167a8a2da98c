#pragma once

#include "core/cuda/mma.cuh"
#include "tile/cuda/weigh.cuh"

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
