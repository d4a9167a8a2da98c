#pragma once

#include "tile/cuda/bias_gradient.h"
#include "tile/cuda/simt.cuh"

namespace fovea::tile::cuda {

// The sums of a block: a tile [own, streamed] in registers.
template <class R, class W, Role kRole>
class BiasTile {
 public:
  static constexpr int M = kMicro<R>;
  __device__ BiasTile(const Call& call, const PieceView& piece, const SimtRoom<R>& room)
      : call_(call), piece_(piece), room_(room), tile_(call, piece, room) {
    clear();
  }

  // Adds the gradients of the scores of a tile.
  __device__ void add(const TileAt& at, std::int32_t head) {
    const Sides<kRole> sides{call_, piece_, head, call_.kv_head_of(head)};
    tile_.score(sides, at);
    tile_.score_gradients(sides, at);
    tile_.weigh_back(sides, at);
    tile_.each([&](int m, int n, int, int) { sum_[m][n] += tile_.gradients()[m][n]; });
  }

  __device__ R* element(std::int32_t head, Pair at) const {
    const BiasArray<void*>& b = call_.d_bias;
    return static_cast<R*>(b.data) + (piece_.batch * b.batch + head * b.head + piece_.query_row(at.query) * b.query +
                                      piece_.key_row(at.key) * b.key + piece_.d_bias_at);
  }

  __device__ void store_pairs(const TileAt& at, std::int32_t head) {
    tile_.each([&](int m, int n, int i, int j) {
      if (i < at.own_count && j < at.streamed_count) *element(head, Sides<kRole>::pair(at, i, j)) += sum_[m][n];
    });
    clear();
  }
  __device__ void store_own(const TileAt& at, std::int32_t head) {
    for (int m = 0; m < M; ++m) {
      const int i = lane_y() + 16 * m;
      const R sum = own_sum(m);
      if (lane_x() == 0 && i < at.own_count) *element(head, Sides<kRole>::pair(at, i, 0)) += sum;
    }
    clear();
  }
  __device__ void store_one(std::int32_t head) {
    for (int m = 0; m < M; ++m)
      if (const R sum = own_sum(m); lane_x() == 0) room_.p[lane_y() + 16 * m] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      R sum = 0;
      for (int i = 0; i < kSimtRows<R>; ++i) sum += room_.p[i];
      *element(head, {0, 0}) += sum;
    }
    __syncthreads();
    clear();
  }
  // `at` is the tile whose first pair has the distance of the sums' first.
  __device__ void store_diagonals(const TileAt& at, std::int32_t head) {
    constexpr int N = kSimtRows<R>;
    __syncthreads();
    tile_.each([&](int m, int n, int i, int j) { room_.p[i * SimtRoom<R>::kPairs + j] = sum_[m][n]; });
    __syncthreads();
    for (int d = static_cast<int>(threadIdx.x) - (N - 1); d < N; d += kSimtThreads) {  // query - key in the tile
      R sum = 0;
      for (int i = max(0, d); i < min(N, N + d); ++i) sum += room_.p[i * SimtRoom<R>::kPairs + i - d];
      const Pair pair{at.own + max(0, d), at.streamed + max(0, -d)};
      if (sum != 0) *element(head, pair) += sum;
    }
    __syncthreads();
    clear();
  }

 private:
  __device__ R own_sum(int m) const {
    R sum = 0;
    for (int n = 0; n < M; ++n) sum += sum_[m][n];
    return row_sum(sum);
  }
  __device__ void clear() {
    tile_.each([&](int m, int n, int, int) { sum_[m][n] = 0; });
  }

  const Call& call_;
  const PieceView& piece_;
  SimtRoom<R> room_;
  SimtTile<R, W, kRole> tile_;
  Micro<R> sum_;
};

// The mask of one streamed block of an own block; kNone where it is not in the list.
__device__ inline std::int32_t mask_of(const ListView& list, std::int32_t own, std::int32_t streamed) {
  for (std::int32_t e = list.start[own]; e < list.start[own + 1]; ++e) {
    const ListView::Entry entry = list.entries[e];
    if (entry.block <= streamed && streamed < entry.block + entry.count) return entry.mask[0];
  }
  return ListView::kNone;
}

// Tiles of the plan's size walked in parts of kSimtRows: those of a diagonal must be square and no larger.
template <class R, class W>
__device__ void add_diagonal(const Call& call, const PieceView& piece, const BiasWork& work, const SimtRoom<R>& room) {
  const ListView& list = piece.rows[0];
  const std::int32_t size = kSimtRows<R>, each = (list.own + size - 1) / size;  // parts of a block
  const std::int32_t rows = work.query_blocks * each, columns = work.key_blocks * each;
  const std::int32_t offset = 2 * static_cast<std::int32_t>(blockIdx.x) + work.parity - (rows - 1);  // key - query part
  if (offset > columns - 1) return;
  BiasTile<R, W, Role::row> sums(call, piece, room);
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  TileAt first{};
  bool any = false;
  for (std::int32_t q = max(0, -offset); q < min(rows, columns - offset); ++q) {
    const std::int32_t k = q + offset, mask = mask_of(list, q / each, k / each);
    const OwnPart own(list, q / each, 1, q % each, size, piece.nq);
    const std::int64_t key = std::int64_t{k / each} * list.streamed + k % each * size, left = piece.nk - key;
    if (mask == ListView::kNone || own.count == 0 || left <= 0) continue;
    const std::uint64_t* bits =
        mask == Plan::kWhole ? nullptr : list.masks + (std::int64_t{mask} * list.own + own.offset) * list.words;
    const std::int32_t count =
        min(static_cast<std::int32_t>(min(left, std::int64_t{size})), list.streamed - k % each * size);
    const TileAt at{own.first, key, own.count, count, bits, list.words, k % each * size};
    if (!any) first = at;
    any = true;
    sums.add(at, head);
  }
  if (any) sums.store_diagonals(first, head);
}

// The heads whose gradients go into an element: one of the grid's, or all that the piece has.
struct HeadSpan {
  std::int32_t begin, end;
  __device__ HeadSpan(const Call& call, const PieceView& piece, bool all) {
    begin = all ? 0 : static_cast<std::int32_t>(blockIdx.y);
    end = all ? call.heads : begin + 1;
    if (piece.kv_head < 0) return;
    begin = max(begin, call.first_head_of(piece.kv_head));
    end = min(end, call.first_head_of(piece.kv_head + 1));
  }
};

__device__ inline Item whole_list(const ListView& list, std::int32_t tile) {
  Item item{0, tile, list.start[tile], 0, 0, -1, 0, 1};
  for (std::int32_t e = item.begin; e < list.start[tile + 1]; ++e) item.blocks += list.entries[e].count;
  return item;
}

template <class R, class W, Role kRole>
__device__ void add_own(const Call& call, const PieceView& piece, const BiasWork& work, const SimtRoom<R>& room) {
  constexpr bool kByColumns = kRole == Role::column;
  const ListView& list = kByColumns ? piece.columns[0] : piece.rows[0];
  const std::int64_t n_own = kByColumns ? piece.nk : piece.nq, n_streamed = kByColumns ? piece.nq : piece.nk;
  const std::int32_t each = (list.own + kSimtRows<R> - 1) / kSimtRows<R>;
  const std::int32_t all = (kByColumns ? work.key_blocks : work.query_blocks) * each;
  const bool one = work.owner == BiasOwner::head;
  const HeadSpan heads(call, piece, work.sums_heads);
  if (heads.begin >= heads.end) return;
  BiasTile<R, W, kRole> sums(call, piece, room);
  TileAt at{};
  for (std::int32_t part = one ? 0 : static_cast<std::int32_t>(blockIdx.x);
       part < (one ? all : static_cast<std::int32_t>(blockIdx.x) + 1); ++part) {
    const OwnPart own(list, part / each, 1, part % each, kSimtRows<R>, n_own);
    if (own.count == 0) continue;
    at.own = own.first;
    at.own_count = own.count;
    const Item item = whole_list(list, part / each);
    walk(list, item, own, kSimtRows<R>, n_streamed, [&](const TileAt& tile) {
      for (std::int32_t head = heads.begin; head < heads.end; ++head) sums.add(tile, head);
      if (work.owner == BiasOwner::tile) sums.store_pairs(tile, heads.begin);
    });
    if (!one && work.owner != BiasOwner::tile) sums.store_own(at, heads.begin);
  }
  if (one) sums.store_one(heads.begin);
}

template <class R, class W>
__global__ void __launch_bounds__(kSimtThreads) bias_gradient_kernel(const __grid_constant__ Call call, BiasWork work) {
  extern __shared__ char memory[];
  const PieceView& piece = call.pieces[blockIdx.z];
  const SimtRoom<R> room(memory, 0);
  work.query_blocks = static_cast<std::int32_t>((piece.nq + piece.rows[0].own - 1) / piece.rows[0].own);
  work.key_blocks = static_cast<std::int32_t>((piece.nk + piece.rows[0].streamed - 1) / piece.rows[0].streamed);
  const HeadSpan heads(call, piece, work.sums_heads);
  if (heads.begin >= heads.end) return;
  if (work.owner == BiasOwner::diagonal) return add_diagonal<R, W>(call, piece, work, room);
  if (work.owner == BiasOwner::keys) return add_own<R, W, Role::column>(call, piece, work, room);
  add_own<R, W, Role::row>(call, piece, work, room);
}

// Zeroes the elements of a piece's pairs.
template <class R>
__global__ void clear_bias_kernel(const __grid_constant__ Call call) {
  const PieceView& piece = call.pieces[blockIdx.z];
  const BiasArray<void*>& b = call.d_bias;
  const std::int64_t keys = b.key == 0 ? 1 : piece.nk, queries = b.query == 0 ? 1 : piece.nq;
  const auto head = static_cast<std::int64_t>(blockIdx.y);
  for (std::int64_t e = blockIdx.x * blockDim.x + threadIdx.x; e < queries * keys; e += gridDim.x * blockDim.x)
    static_cast<R*>(b.data)[piece.batch * b.batch + head * b.head + piece.query_row(e / keys) * b.query +
                            piece.key_row(e % keys) * b.key + piece.d_bias_at] = 0;
}

}  // namespace fovea::tile::cuda
