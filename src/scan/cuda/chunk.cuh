#pragma once

#include "core/cuda/mma.cuh"
#include "scan/cuda/elements.cuh"
#include "scan/cuda/mma_launch.h"

// Chunks of rows in shared memory and states in registers, for the tensor-core kernels: bf16, heads of kD columns.
//
// A block of kD / 16 warps takes kD rows at a time. Each warp has 16 of the rows and 16 of the state's.
namespace fovea::scan::cuda {

__device__ __forceinline__ float low_of(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// The maps of policy/feature_map.h with the card's own exponential: 2^-22 off, where bf16 keeps 2^-9.
__device__ __forceinline__ float quick_feature(Map map, float x) {
  constexpr float kLog2e = math::kLog2e<float>;
  switch (map) {
    case Map::elu_plus_one: return x > 0 ? x + 1 : quick_exp2(x * kLog2e);
    case Map::elu: {
      const float series = x * (1 + x * (0.5f + x * (1.0f / 6)));  // where e^x - 1 would cancel
      return x > 0 ? x : (x > -0.02f ? series : quick_exp2(x * kLog2e) - 1);
    }
    default: return feature<float>(map, x);
  }
}

template <int kD>
struct ChunkShape {
  using Tile = SharedTile<kD>;
  static constexpr int kRows = kD, kThreads = 2 * kD, kPieces = kD / 8, kSteps = kD / 16;
  static constexpr int kBytes = Tile::bytes(kRows);
};

// Rows of one head of a piece in the caller's array.
struct RowsView {
  const bfloat16* data;
  std::int64_t stride;
};
__device__ __forceinline__ RowsView rows_of(const In& array, std::int64_t batch, std::int64_t row, std::int32_t head) {
  return {static_cast<const bfloat16*>(array.data) + offset_of(array, batch, row, head), array.row};
}

// Rows [begin, end) of a tile exist; the others are zero.
struct Range {
  int begin, end;
};

// Starts to copy rows first + r of a view.
template <int kD>
__device__ __forceinline__ void fetch_rows(const SharedTile<kD>& tile, const RowsView& from, std::int64_t first,
                                           const Range& range) {
  using Shape = ChunkShape<kD>;
#pragma unroll
  for (int i = 0; i < Shape::kSteps; ++i) {
    const int e = static_cast<int>(threadIdx.x) + i * Shape::kThreads, row = e / Shape::kPieces,
              piece = e % Shape::kPieces;
    const bool exists = row >= range.begin && row < range.end;
    copy16(tile.at(row, piece), exists ? from.data + (first + row) * from.stride + piece * 8 : from.data, exists);
  }
}

template <int kD, Map kMap>
__device__ __forceinline__ void map_rows_as(const SharedTile<kD>& tile, const Range& range) {
  using Shape = ChunkShape<kD>;
#pragma unroll
  for (int i = 0; i < Shape::kSteps; ++i) {
    const int e = static_cast<int>(threadIdx.x) + i * Shape::kThreads, row = e / Shape::kPieces;
    if (row < range.begin || row >= range.end) continue;
    const std::uint32_t at = tile.at(row, e % Shape::kPieces);
    std::uint32_t r[4];
    load_shared(r, at);
#pragma unroll
    for (std::uint32_t& x : r) x = pack<bfloat16>(quick_feature(kMap, low_of(x)), quick_feature(kMap, high_of(x)));
    store_shared(r, at);
  }
}
// Turns rows into features; every thread the pieces that it has fetched.
template <int kD>
__device__ __forceinline__ void map_rows(const SharedTile<kD>& tile, Map map, const Range& range) {
  switch (map) {
    case Map::identity: return;
    case Map::elu_plus_one: return map_rows_as<kD, Map::elu_plus_one>(tile, range);
    case Map::elu: return map_rows_as<kD, Map::elu>(tile, range);
    case Map::relu: return map_rows_as<kD, Map::relu>(tile, range);
  }
}

// First operand: the tile's columns [column, column + 16) as rows, its rows [16 step, 16 step + 16) as columns.
template <int kD>
__device__ __forceinline__ void own_transposed(const SharedTile<kD>& tile, std::uint32_t (&a)[4], int column,
                                               int step) {
  load_transposed(a, tile.at(16 * step + lane() % 8 + lane() / 16 * 8, column / 8 + lane() / 8 % 2));
}

// acc = a b^T or += a b: 16 rows against a whole tile.
template <int kD>
__device__ __forceinline__ void add_along(float (&acc)[kD / 8][4], const std::uint32_t (&a)[4],
                                          const SharedTile<kD>& tile, int row) {
#pragma unroll
  for (int p = 0; p < kD / 16; ++p) {
    std::uint32_t b[4];
    tile.along(b, row, p);
    multiply_add<bfloat16>(acc[2 * p], a, b[0], b[1]);
    multiply_add<bfloat16>(acc[2 * p + 1], a, b[2], b[3]);
  }
}
template <int kD>
__device__ __forceinline__ void add_across(float (&acc)[kD / 8][4], const std::uint32_t (&a)[4],
                                           const SharedTile<kD>& tile, int step) {
#pragma unroll
  for (int p = 0; p < kD / 16; ++p) {
    std::uint32_t b[4];
    tile.across(b, 16 * p, step);
    multiply_add<bfloat16>(acc[2 * p], a, b[0], b[1]);
    multiply_add<bfloat16>(acc[2 * p + 1], a, b[2], b[3]);
  }
}

// 16 x 16 products of own rows with rows [row, row + 16) of a tile.
template <int kD>
__device__ __forceinline__ void score_block(float (&scores)[2][4], const SharedTile<kD>& own, int own_row,
                                            const SharedTile<kD>& other, int row) {
#pragma unroll
  for (int step = 0; step < kD / 16; ++step) {
    std::uint32_t a[4], b[4];
    own.own(a, own_row, step);
    other.across(b, row, step);
    multiply_add<bfloat16>(scores[0], a, b[0], b[1]);
    multiply_add<bfloat16>(scores[1], a, b[2], b[3]);
  }
}
__device__ __forceinline__ void pack_block(std::uint32_t (&a)[4], const float (&scores)[2][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    a[2 * half] = pack<bfloat16>(scores[half][0], scores[half][1]);
    a[2 * half + 1] = pack<bfloat16>(scores[half][2], scores[half][3]);
  }
}
template <int kN>
__device__ __forceinline__ void clear(float (&acc)[kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
}
// Own rows times a factor each.
template <int kN>
__device__ __forceinline__ void scale_rows(float (&acc)[kN][4], float upper, float lower) {
#pragma unroll
  for (int n = 0; n < kN; ++n) acc[n][0] *= upper, acc[n][1] *= upper, acc[n][2] *= lower, acc[n][3] *= lower;
}

// Weights of decay within a chunk: powers[t] = e^(g t).
struct Powers {
  const float* table;  // null: no decay

  __device__ float operator[](int t) const { return table[t]; }
  __device__ bool any() const { return table != nullptr; }
  // Keeps one side of the diagonal, weighed. Rows from own_row, columns from row on; keys are the columns or the rows.
  __device__ __forceinline__ void weigh(float (&scores)[2][4], int own_row, int row, bool keys_are_columns) const {
    if (own_row != row && !any()) return;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = own_row + row_of(e), j = row + 8 * half + column_of(e), gap = keys_are_columns ? i - j : j - i;
        if (gap < 0)
          scores[half][e] = 0;
        else if (any())
          scores[half][e] *= table[gap];
      }
  }
  // Weighs rows of a chunk that are columns of a first operand: from the end, or from the beginning, one more.
  __device__ __forceinline__ void weigh_rows(std::uint32_t (&a)[4], int step, int count, bool from_begin,
                                             int rows) const {
    if (!any()) return;
    // Rows that do not exist are zero, whatever their weight.
    const auto weight = [&](int t) { return table[t < 0 ? 0 : (t > rows ? rows : t)]; };
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = 16 * step + r / 2 * 8 + lane() % 4 * 2;
      const int low = from_begin ? row + 1 : count - 1 - row, high = from_begin ? row + 2 : count - 2 - row;
      a[r] = pack<bfloat16>(low_of(a[r]) * weight(low), high_of(a[r]) * weight(high));
    }
  }
};
// `first`: where the table is in shared memory, kRows + 1 floats; a barrier must follow.
__device__ __forceinline__ Powers make_powers(const Call& call, std::int32_t kv_head, float* table, int rows) {
  if (call.decay == Decay::none) return {nullptr};
  for (int t = static_cast<int>(threadIdx.x); t <= rows; t += static_cast<int>(blockDim.x))
    table[t] = static_cast<float>(exp(call.head_decay[kv_head] * t));
  return {table};
}

// A warp's 16 rows of a state in f32: kD columns of (d_k, kWidth).
template <int kD, int kWidth = kD>
struct StateRows {
  float s[kD / 8][4];

  __device__ __forceinline__ static std::int64_t place(int n, int half) {
    return std::int64_t{warp() * 16 + lane() / 4 + half * 8} * kWidth + 8 * n + lane() % 4 * 2;
  }
  __device__ __forceinline__ void load(const float* state) {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 x = state == nullptr ? float2{0, 0} : two(state + place(n, half));
        s[n][2 * half] = x.x, s[n][2 * half + 1] = x.y;
      }
  }
  __device__ __forceinline__ void save(float* state) const {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const to = state + place(n, half);
        if constexpr (kWidth % 2 == 0)
          *reinterpret_cast<float2*>(to) = {s[n][2 * half], s[n][2 * half + 1]};
        else
          to[0] = s[n][2 * half], to[1] = s[n][2 * half + 1];
      }
  }
  // As a tile, and what that loses as another.
  __device__ __forceinline__ void put(const SharedTile<kD>& tile) const {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) put_pair(tile, n, half, pack<bfloat16>(s[n][2 * half], s[n][2 * half + 1]));
  }
  __device__ __forceinline__ void put_rest(const SharedTile<kD>& tile) const {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x = s[n][2 * half], y = s[n][2 * half + 1];
        const std::uint32_t high = pack<bfloat16>(x, y);
        put_pair(tile, n, half, pack<bfloat16>(x - low_of(high), y - high_of(high)));
      }
  }
  __device__ __forceinline__ void fade(const Powers& powers, int count) {
    if (powers.any()) scale_rows(s, powers[count], powers[count]);
  }
  // += x^T y over the rows of a chunk. weigh(a, step) weighs rows of x, also(a, step) sees what became of them.
  template <class Weigh, class Also>
  __device__ __forceinline__ void add(const SharedTile<kD>& x, const SharedTile<kD>& y, const Weigh& weigh,
                                      const Also& also) {
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t a[4];
      own_transposed(x, a, warp() * 16, step);
      weigh(a, step);
      add_along<kD>(s, a, y, 16 * step);
      also(a, step);
    }
  }

 private:
  __device__ __forceinline__ static float2 two(const float* at) {
    if constexpr (kWidth % 2 == 0) return *reinterpret_cast<const float2*>(at);
    return {at[0], at[1]};
  }
  __device__ __forceinline__ static void put_pair(const SharedTile<kD>& tile, int n, int half, std::uint32_t pair) {
    const std::uint32_t at = tile.at(warp() * 16 + lane() / 4 + half * 8, n) + lane() % 4 * 4;
    store_shared(pair, at);
  }
};

// Writes a warp's 16 rows through its rows of a tile that nobody else uses. Rows in `range` of the chunk.
template <int kD>
__device__ __forceinline__ void store_rows(const SharedTile<kD>& room, const float (&acc)[kD / 8][4], bfloat16* to,
                                           std::int64_t stride, const Range& range) {
  const int first = warp() * 16;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kD / 8; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t at = room.at(first + lane() / 4 + half * 8, n) + lane() % 4 * 4;
      store_shared(pack<bfloat16>(acc[n][2 * half], acc[n][2 * half + 1]), at);
    }
  __syncwarp();
#pragma unroll
  for (int e = lane(); e < 16 * kD / 8; e += 32) {
    const int row = first + e / (kD / 8), piece = e % (kD / 8);
    if (row < range.begin || row >= range.end) continue;
    std::uint32_t r[4];
    load_shared(r, room.at(row, piece));
    *reinterpret_cast<uint4*>(to + row * stride + piece * 8) = {r[0], r[1], r[2], r[3]};
  }
  __syncwarp();
}
// Writes a warp's 16 rows in f32: four lanes have 32 bytes of a row.
template <int kD>
__device__ __forceinline__ void store_wide_rows(const float (&acc)[kD / 8][4], float* to, std::int64_t stride,
                                                const Range& range) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp() * 16 + lane() / 4 + half * 8;
    if (row < range.begin || row >= range.end) continue;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
      *reinterpret_cast<float2*>(to + row * stride + 8 * n + lane() % 4 * 2) = {acc[n][2 * half], acc[n][2 * half + 1]};
  }
}
// What rows lose as bf16.
template <int kN>
__device__ __forceinline__ void keep_rest(float (&acc)[kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t high = pack<bfloat16>(acc[n][2 * half], acc[n][2 * half + 1]);
      acc[n][2 * half] -= low_of(high), acc[n][2 * half + 1] -= high_of(high);
    }
}
template <int kD, Map kMap>
__device__ __forceinline__ void vjp_slopes_as(float (&acc)[kD / 8][4], const SharedTile<kD>& features) {
#pragma unroll
  for (int n = 0; n < kD / 8; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t pair = load_shared(features.at(warp() * 16 + lane() / 4 + half * 8, n) + lane() % 4 * 4);
      acc[n][2 * half] *= slope<float>(kMap, low_of(pair));
      acc[n][2 * half + 1] *= slope<float>(kMap, high_of(pair));
    }
}
// Gradients of features times the slope of the map, from the features in own rows of a tile.
template <int kD>
__device__ __forceinline__ void vjp_slopes(float (&acc)[kD / 8][4], const SharedTile<kD>& features, Map map) {
  switch (map) {
    case Map::identity: return;
    case Map::elu_plus_one: return vjp_slopes_as<kD, Map::elu_plus_one>(acc, features);
    case Map::elu: return vjp_slopes_as<kD, Map::elu>(acc, features);
    case Map::relu: return vjp_slopes_as<kD, Map::relu>(acc, features);
  }
}

}  // namespace fovea::scan::cuda
