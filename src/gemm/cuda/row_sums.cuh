#pragma once

#include <algorithm>
#include <bit>

#include "core/cuda/mma.cuh"
#include "tensor/cuda/columns.cuh"

// Sums over very many rows of the products of their columns: a^T dz for few columns of a, which is a matrix or, as
// numbers of its ones, a one-hot one. A block streams a segment of the rows through shared memory and has all of the
// sums, 64 x 64 of them in the registers of a warp; where there are that few, four warps take turns with the rows. The
// sums of the rows of dz come from the same fragments.
namespace fovea::gemm {

using namespace device;  // NOLINT

constexpr int kSide = 64, kStages = 3, kTurn = 32;  // rows of a warp's turn
constexpr int kMostWarps = 8;
using Tile = SharedTile<kSide>;

struct Operands {
  const void *a, *dz;  // a (rows, in) or, one-hot, i32 (rows)
  float* parts;        // (segments, in out + out)
  std::int64_t rows, rows_of_segment;
  int in, out, turns;  // in and out are multiples of 64; warps that share the rows of a stage

  __host__ __device__ int down() const { return in / kSide; }
  __host__ __device__ int across() const { return out / kSide; }
  __host__ __device__ int warps() const { return down() * across() * turns; }
  __host__ __device__ int rows_of_stage() const { return kTurn * turns; }
  __host__ __device__ std::int64_t width() const { return std::int64_t{in} * out + out; }
};

// Where a warp works: its part of the sums, and its turn.
struct Place {
  int down, across, turn;

  __device__ explicit Place(const Operands& p)
      : down(warp() / p.across() % p.down()), across(warp() % p.across()), turn(warp() / p.across() / p.down()) {}
};

// Starts to copy 64 columns of the rows of a stage.
template <class T>
__device__ inline void fetch_columns(const Tile& to, const T* from, int stride, std::int64_t rows, int rows_of_stage) {
  for (int i = static_cast<int>(threadIdx.x); i < rows_of_stage * Tile::kPieces; i += static_cast<int>(blockDim.x)) {
    const int row = i / Tile::kPieces, piece = i % Tile::kPieces;
    copy16(to.at(row, piece), row < rows ? from + row * stride + piece * 8 : from, row < rows);
  }
}

// The first operand of a warp, from a matrix.
template <class T>
struct MatrixRows {
  Tile tile;
  int row = 0;

  __host__ __device__ static int bytes(const Operands& p) { return p.down() * Tile::bytes(p.rows_of_stage()); }
  __device__ static void fetch(const Operands& p, std::uint32_t stage, std::int64_t begin, std::int64_t rows) {
    const auto bytes = static_cast<std::uint32_t>(Tile::bytes(p.rows_of_stage()));
    for (int t = 0; t < p.down(); ++t)
      fetch_columns(Tile{stage + static_cast<std::uint32_t>(t) * bytes},
                    static_cast<const T*>(p.a) + begin * p.in + t * kSide, p.in, rows, p.rows_of_stage());
  }
  __device__ MatrixRows(const Operands& p, const Place& place, std::uint32_t stage)
      : tile{stage + static_cast<std::uint32_t>(place.down * Tile::bytes(p.rows_of_stage()))} {}
  __device__ void at(int step) { row = step; }
  // Columns [16 m, 16 m + 16) of 16 rows.
  __device__ void get(int m, std::uint32_t (&a)[4]) const {
    load_transposed(a, tile.at(row + lane() % 8 + lane() / 16 * 8, 2 * m + lane() / 8 % 2));
  }
};

// The same of a one-hot matrix: row r has its one in column a[r].
template <class T>
struct OneHotRows {
  std::uint32_t numbers;
  int column;     // of this lane in the first of the warp's products
  int of_row[4];  // the numbers of the rows that it has

  __host__ __device__ static int bytes(const Operands& p) { return p.rows_of_stage() * static_cast<int>(sizeof(int)); }
  __device__ static void fetch(const Operands& p, std::uint32_t stage, std::int64_t begin, std::int64_t rows) {
    for (int i = static_cast<int>(threadIdx.x); i < p.rows_of_stage(); i += static_cast<int>(blockDim.x)) {
      const int* const from = static_cast<const int*>(p.a) + begin;
      copy4(stage + static_cast<std::uint32_t>(i) * 4u, i < rows ? from + i : from, i < rows);
    }
  }
  __device__ OneHotRows(const Operands&, const Place& place, std::uint32_t stage)
      : numbers(stage), column(place.down * kSide + lane() / 4) {}
  __device__ void at(int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      of_row[i] = static_cast<int>(
          load_shared(numbers + static_cast<std::uint32_t>(step + lane() % 4 * 2 + i % 2 + i / 2 * 8) * 4u));
  }
  __device__ void get(int m, std::uint32_t (&a)[4]) const {
    constexpr std::uint32_t kOne = std::is_same_v<T, bfloat16> ? 0x3f80u : 0x3c00u;
    const int first = column + m * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int wanted = first + i % 2 * 8;
      a[i] = (of_row[i / 2 * 2] == wanted ? kOne : 0u) | (of_row[i / 2 * 2 + 1] == wanted ? kOne << 16 : 0u);
    }
  }
};

template <class T>
__device__ inline float sum_of_pair(std::uint32_t pair) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const float2 both = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
    return both.x + both.y;
  } else {
    const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&pair));
    return both.x + both.y;
  }
}

// 64 x 64 sums, and those of the 64 columns of dz.
template <class T>
struct Sums {
  float of[4][8][4] = {}, columns[8] = {};

  // a^T dz of 16 rows.
  template <class First>
  __device__ void add(First& first, const Tile& dz, int row) {
    std::uint32_t a[4][4];
    first.at(row);
#pragma unroll
    for (int m = 0; m < 4; ++m) first.get(m, a[m]);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      std::uint32_t b[4];
      dz.along(b, row, n);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        columns[2 * n + half] += sum_of_pair<T>(b[2 * half]) + sum_of_pair<T>(b[2 * half + 1]);
#pragma unroll
        for (int m = 0; m < 4; ++m) multiply_add<T>(of[m][2 * n + half], a[m], b[2 * half], b[2 * half + 1]);
      }
    }
  }
  // f(number, value) for all that a lane has; numbers are the same in all warps.
  template <class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) f((m * 8 + n) * 4 + e, of[m][n][e]);
#pragma unroll
    for (int n = 0; n < 8; ++n) f(128 + n, columns[n]);
  }
};
constexpr int kOfLane = 136;

// Adds the sums of the later turns to those of the first, in order.
template <class T>
__device__ void join_turns(const Operands& p, const Place& place, float* room, Sums<T>& sums) {
  float* const mine = room + (place.down * p.across() + place.across) * kOfLane * 32 + lane();
  for (int turn = 1; turn < p.turns; ++turn) {
    __syncthreads();
    if (place.turn == turn) sums.each([&](int i, float value) { mine[i * 32] = value; });
    __syncthreads();
    if (place.turn == 0) sums.each([&](int i, float& value) { value += mine[i * 32]; });
  }
}

template <class T>
__device__ void store(const Operands& p, const Place& place, Sums<T>& sums) {
  float* const to = p.parts + blockIdx.x * p.width();
#pragma unroll
  for (int m = 0; m < 4; ++m)
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = place.down * kSide + m * 16 + row_of(2 * half), column = place.across * kSide + n * 8;
        *reinterpret_cast<float2*>(to + row * p.out + column + column_of(0)) =
            make_float2(sums.of[m][n][2 * half], sums.of[m][n][2 * half + 1]);
      }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float sum = quad_sum(sums.columns[n]);
    if (place.down == 0 && lane() % 4 == 0) to[p.in * p.out + place.across * kSide + n * 8 + lane() / 4] = sum;
  }
}

template <class First>
__host__ __device__ int stage_bytes(const Operands& p) {
  return First::bytes(p) + p.across() * Tile::bytes(p.rows_of_stage());
}

template <class T, class First>
__device__ void fetch(const Operands& p, std::uint32_t stage, std::int64_t begin, std::int64_t end) {
  First::fetch(p, stage, begin, end - begin);
  const auto bytes = static_cast<std::uint32_t>(Tile::bytes(p.rows_of_stage()));
  for (int t = 0; t < p.across(); ++t)
    fetch_columns(Tile{stage + static_cast<std::uint32_t>(First::bytes(p)) + static_cast<std::uint32_t>(t) * bytes},
                  static_cast<const T*>(p.dz) + begin * p.out + t * kSide, p.out, end - begin, p.rows_of_stage());
}

template <class T, class First>
__global__ void __launch_bounds__(32 * kMostWarps, 1) row_sums_kernel(Operands p) {
  extern __shared__ __align__(128) std::byte memory[];
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  const auto stage_at = [&](std::int64_t chunk) {
    return base + static_cast<std::uint32_t>(static_cast<int>(chunk % kStages) * stage_bytes<First>(p));
  };
  const Place place(p);
  const int rows = p.rows_of_stage();
  const std::int64_t begin = blockIdx.x * p.rows_of_segment;
  const std::int64_t end = min(p.rows, begin + p.rows_of_segment), chunks = (end - begin + rows - 1) / rows;
  Sums<T> sums;
#pragma unroll
  for (int c = 0; c < kStages - 1; ++c) {
    if (c < chunks) fetch<T, First>(p, stage_at(c), begin + c * rows, end);
    commit_copies();
  }
  for (std::int64_t c = 0; c < chunks; ++c) {
    await_copies<kStages - 2>();
    __syncthreads();  // it has arrived for all, and all are done with the one before
    if (const std::int64_t next = c + kStages - 1; next < chunks)
      fetch<T, First>(p, stage_at(next), begin + next * rows, end);
    commit_copies();
    const std::uint32_t stage = stage_at(c);
    First first(p, place, stage);
    const Tile dz{stage + static_cast<std::uint32_t>(First::bytes(p) + place.across * Tile::bytes(rows))};
#pragma unroll
    for (int step = 0; step < kTurn; step += 16) sums.add(first, dz, place.turn * kTurn + step);
  }
  await_copies<0>();
  join_turns(p, place, reinterpret_cast<float*>(memory), sums);
  if (place.turn == 0) store(p, place, sums);
}

// By the shape alone. Parts are written and read once: at most 9 MB of them. A power of two: one or two blocks for each
// processor of a large card.
inline std::int64_t rows_of_segment(const Operands& p) {
  constexpr std::int64_t kBytes = 9 << 20, kMost = 256, kLeast = 64;
  const std::int64_t most = std::clamp(kBytes / (p.width() * std::int64_t{sizeof(float)}), kLeast, kMost);
  const auto wanted = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
  const std::int64_t stage = p.rows_of_stage(), stages = (p.rows + stage - 1) / stage;
  return (stages + wanted - 1) / wanted * stage;
}

template <class T, class First>
bool launch(const Context& context, const Operands& p, std::int64_t segments) {
  int card = 0, most = 0;
  check_cuda(cudaGetDevice(&card), "a card");
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, card), "a card");
  const int joined = p.turns > 1 ? static_cast<int>(sizeof(float)) * 32 * kOfLane * p.down() * p.across() : 0;
  const int bytes = std::max(kStages * stage_bytes<First>(p), joined);
  if (bytes > most) return false;
  const auto kernel = row_sums_kernel<T, First>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "sums over rows");
  kernel<<<static_cast<unsigned>(segments), static_cast<unsigned>(32 * p.warps()), static_cast<std::size_t>(bytes),
           stream_of(context)>>>(p);
  check_cuda(cudaGetLastError(), "sums over rows");
  return true;
}

// put(i, sum): number i of the sums (in, out) and, behind them, (out) of the rows of dz. False: the card cannot.
// `p`: all but parts, turns and segments.
template <class T, template <class> class First, class Put>
bool sum_rows(const Context& context, Operands p, const Put& put) {
  p.turns = std::max(1, 4 / (p.down() * p.across()));
  p.rows_of_segment = rows_of_segment(p);
  const std::int64_t segments = (p.rows + p.rows_of_segment - 1) / p.rows_of_segment;
  const Tensor parts = Tensor::empty(context, {segments, p.width()}, DType::f32, Lifetime::scratch);
  p.parts = parts.data<float>();
  if (!launch<T, First<T>>(context, p, segments)) return false;
  join_parts(context, {segments, p.width()}, p.parts, put);
  return true;
}

constexpr std::int64_t kLeastRows = 4096;  // for segments to pay

inline bool is_aligned(const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0; }
inline bool fits(std::int64_t in, std::int64_t out) {
  return in > 0 && out > 0 && in % kSide == 0 && out % kSide == 0 && in / kSide * (out / kSide) <= kMostWarps;
}

}  // namespace fovea::gemm
