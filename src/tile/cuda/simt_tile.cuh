#pragma once

#include "core/cuda/storage.cuh"
#include "tile/cuda/weigh.cuh"

// Tiles of pairs by plain multiply-adds: any width, stride, tile of the plan and type; nothing that a zero weight hides
// matters. 16 x 16 threads, each with kMicro x kMicro pairs that are 16 rows and columns apart; a row's pairs are those
// of 16 neighbouring lanes.
namespace fovea::tile::cuda {

template <class R>
inline constexpr int kMicro = std::is_same_v<R, double> ? 2 : 4;
template <class R>
inline constexpr int kSimtRows = 16 * kMicro<R>;  // of a tile, own and streamed
inline constexpr int kSimtThreads = 256;
inline constexpr int kChunk = 32;  // columns of an operand that stand in shared memory at a time

template <class R>
using Micro = R[kMicro<R>][kMicro<R>];

// Rows of one head of an array.
struct RowsAt {
  DType dtype;
  const void* data;
  std::int64_t first, stride;
  std::int32_t count;
};

__device__ inline int lane_x() { return static_cast<int>(threadIdx.x) % 16; }
__device__ inline int lane_y() { return static_cast<int>(threadIdx.x) / 16; }

// The sum, or the largest, of a row's 16 lanes; the same bits in all of them.
template <class R>
__device__ R row_sum(R x) {
  for (int step = 8; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
template <class R>
__device__ R row_max(R x) {
  for (int step = 8; step > 0; step /= 2) x = math::larger(__shfl_xor_sync(0xffffffffu, x, step), x);
  return x;
}

// Shared memory of a block.
template <class R>
struct SimtRoom {
  static constexpr int kLine = kChunk + 1, kPairs = kSimtRows<R> + 1;
  R *a, *b;        // [rows, kLine]
  R *p, *g;        // [rows, kPairs]: weights, gradients of scores; own rows first
  R *acc1, *acc2;  // [rows, d]

  __device__ SimtRoom(char* memory, int d1) {
    a = reinterpret_cast<R*>(memory);
    b = a + kSimtRows<R> * kLine;
    p = b + kSimtRows<R> * kLine;
    g = p + kSimtRows<R> * kPairs;
    acc1 = g + kSimtRows<R> * kPairs;
    acc2 = acc1 + kSimtRows<R> * d1;
  }
  static std::size_t bytes(std::int64_t d1, std::int64_t d2) {
    return sizeof(R) * static_cast<std::size_t>(kSimtRows<R> * (2 * kLine + 2 * kPairs + d1 + d2));
  }
};

// to[row][c] = rows' columns [c0, c0 + kChunk), zero beyond the rows and the width.
template <class R>
__device__ void load_chunk(const RowsAt& rows, int c0, int width, R* to) {
  for (int e = static_cast<int>(threadIdx.x); e < kSimtRows<R> * kChunk; e += kSimtThreads) {
    const int row = e / kChunk, c = e % kChunk;
    const bool inside = row < rows.count && c0 + c < width;
    to[row * SimtRoom<R>::kLine + c] =
        inside ? load_as<R>(rows.data, rows.dtype, rows.first + row * rows.stride + c0 + c) : R{0};
  }
}

// dots[m][n] = own row m . streamed row n, columns in order: every kernel comes to the same bits.
template <class R>
__device__ void multiply_rows(const SimtRoom<R>& room, const RowsAt (&rows)[2], int width, Micro<R>& dots) {
  constexpr int M = kMicro<R>, L = SimtRoom<R>::kLine;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < M; ++n) dots[m][n] = 0;
  for (int c0 = 0; c0 < width; c0 += kChunk) {
    __syncthreads();
    load_chunk(rows[0], c0, width, room.a);
    load_chunk(rows[1], c0, width, room.b);
    __syncthreads();
    for (int c = 0; c < kChunk; ++c) {
      R a[M], b[M];
#pragma unroll
      for (int m = 0; m < M; ++m) a[m] = room.a[(lane_y() + 16 * m) * L + c];
#pragma unroll
      for (int n = 0; n < M; ++n) b[n] = room.b[(lane_x() + 16 * n) * L + c];
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < M; ++n) dots[m][n] = fma(a[m], b[n], dots[m][n]);
    }
  }
}

template <class R>
struct Accumulate {
  const R* weights;  // [rows, kPairs]
  const RowsAt& streamed;
  int width;
  R* to;       // [rows, width]
  bool hides;  // may a zero weight meet what must not matter?
};

// to[m] = factor[m] to[m] + sum_n weights[m][n] streamed row n
template <class R>
__device__ void accumulate(const SimtRoom<R>& room, const Accumulate<R>& x, const R (&factor)[kMicro<R>]) {
  constexpr int M = kMicro<R>, L = SimtRoom<R>::kLine, P = SimtRoom<R>::kPairs;
  for (int c0 = 0; c0 < x.width; c0 += kChunk) {
    __syncthreads();
    load_chunk(x.streamed, c0, x.width, room.b);
    __syncthreads();
    R sum[M][2] = {};
    for (int n = 0; n < x.streamed.count; ++n) {
      const R b0 = room.b[n * L + lane_x()], b1 = room.b[n * L + lane_x() + 16];
#pragma unroll
      for (int m = 0; m < M; ++m) {
        const R w = x.weights[(lane_y() + 16 * m) * P + n];
        const bool counts = !x.hides || w != 0;
        sum[m][0] = counts ? fma(w, b0, sum[m][0]) : sum[m][0];
        sum[m][1] = counts ? fma(w, b1, sum[m][1]) : sum[m][1];
      }
    }
    for (int m = 0; m < M; ++m)
      for (int part = 0; part < 2; ++part) {
        const int c = c0 + lane_x() + 16 * part;
        if (c >= x.width) continue;
        R& to = x.to[(lane_y() + 16 * m) * x.width + c];
        to = fma(to, factor[m], sum[m][part]);
      }
  }
}

// A tile of pairs of local rows; by_columns: own rows are keys.
struct TileAt {
  std::int64_t own, streamed;
  std::int32_t own_count, streamed_count;
  const std::uint64_t* mask;  // of the first own row and streamed row's words; null: whole
  std::int32_t words, first_bit;

  __device__ bool keeps(int m, int n) const {
    if (m >= own_count || n >= streamed_count) return false;
    const int bit = first_bit + n;
    return mask == nullptr || (mask[m * words + bit / 64] >> (bit % 64) & 1) != 0;
  }
};

// The part of an own tile that a block works on.
struct OwnPart {
  std::int64_t first;
  std::int32_t count;
  std::int32_t half, offset;  // which own block of the tile, and where in it

  __device__ OwnPart(const ListView& list, std::int32_t tile, std::int32_t group, std::int32_t part, std::int32_t size,
                     std::int64_t n) {
    const std::int32_t each = (list.own + size - 1) / size;
    half = part / each;
    offset = part % each * size;
    first = (std::int64_t{tile} * group + half) * list.own + offset;
    const std::int64_t left = min(n - first, std::int64_t{min(size, list.own - offset)});
    count = half < group && left > 0 ? static_cast<std::int32_t>(left) : 0;
  }
};

// Calls f(tile) for the streamed rows of an item's whole list, `size` at a time.
template <class F>
__device__ void walk(const ListView& list, const Item& item, const OwnPart& own, std::int32_t size, std::int64_t n,
                     F&& f) {
  for (std::int32_t e = item.begin, left = item.blocks; left > 0; left -= list.entries[e].count, ++e) {
    const ListView::Entry entry = list.entries[e];
    const std::int32_t mask = entry.mask[own.half];
    if (mask == ListView::kNone) continue;
    const std::uint64_t* bits =
        mask == Plan::kWhole ? nullptr : list.masks + (std::int64_t{mask} * list.own + own.offset) * list.words;
    for (std::int32_t block = entry.block; block < entry.block + entry.count; ++block)
      for (std::int32_t offset = 0; offset < list.streamed; offset += size) {
        const std::int64_t first = std::int64_t{block} * list.streamed + offset;
        const std::int64_t count = min(n - first, std::int64_t{min(size, list.streamed - offset)});
        if (count > 0)
          f(TileAt{own.first, first, own.count, static_cast<std::int32_t>(count), bits, list.words, offset});
      }
  }
}

}  // namespace fovea::tile::cuda
