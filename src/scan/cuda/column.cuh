#pragma once

#include "scan/cuda/chunk.cuh"

// What a denominator adds to chunks: one more column of the states, and a factor for every row of gradients.
//
//   o = y / d,  d = f(q) z:   dy = d_o / d,  dd = -(dy o),  dz = sum of f(q) dd
//
// Gradients stay d_o, and rows of queries are multiplied with 1 / d; beside d_o stands `pull`, d dd = -(d_o o).
namespace fovea::scan::cuda {

inline constexpr std::uint32_t kOnes = 0x3f803f80u;  // a pair

// A column of kD numbers in shared memory, as what bf16 keeps of them and what that loses.
template <int kD>
struct PairColumn {
  static constexpr int kBytes = 2 * kD * 2;
  std::uint32_t base;

  // Two numbers from an even row on.
  __device__ __forceinline__ std::uint32_t high(int row) const {
    return load_shared(base + static_cast<std::uint32_t>(row * 2));
  }
  __device__ __forceinline__ std::uint32_t rest(int row) const { return high(kD + row); }
  __device__ __forceinline__ float2 two(int row) const {
    const std::uint32_t a = high(row), b = rest(row);
    return {low_of(a) + low_of(b), high_of(a) + high_of(b)};
  }
};

// The factors of a chunk's queries in shared memory: {1 / d, pull} of every row, zero where there is none.
template <int kD>
struct RowScales {
  static constexpr int kBytes = kD * 8;
  std::uint32_t base;

  __device__ __forceinline__ float2 operator[](int row) const {
    const std::uint32_t at = base + static_cast<std::uint32_t>(row * 8);
    return {__uint_as_float(load_shared(at)), __uint_as_float(load_shared(at + 4))};
  }
  // Starts to copy rows first + r of a head.
  __device__ __forceinline__ void fetch(const float2* from, std::int64_t stride, std::int64_t first,
                                        const Range& range) const {
    const int row = static_cast<int>(threadIdx.x);
    if (row >= kD) return;
    const bool exists = row >= range.begin && row < range.end;
    copy8(base + static_cast<std::uint32_t>(row * 8), exists ? from + (first + row) * stride : from, exists);
  }
  // Weighs rows that are columns of a first operand.
  __device__ __forceinline__ void weigh_rows(std::uint32_t (&a)[4], int step) const {
#pragma unroll
    for (int r = 0; r < 4; r += 2) {
      const int row = 16 * step + r / 2 * 8 + lane() % 4 * 2;
      const float low = (*this)[row].x, high = (*this)[row + 1].x;
#pragma unroll
      for (int upper = 0; upper < 2; ++upper)
        a[r + upper] = pack<bfloat16>(low_of(a[r + upper]) * low, high_of(a[r + upper]) * high);
    }
  }
  // Scores of own rows with gradients (rows [row, row + 16) of the chunk): the pull of each, and its factor.
  __device__ __forceinline__ void scale_columns(float (&scores)[2][4], int row, bool with_pull) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float2 scale = (*this)[row + 8 * half + column_of(e)];
        const float pull = with_pull ? scale.y : 0.0f;
        scores[half][e] = (scores[half][e] + pull) * scale.x;
        scores[half][e + 2] = (scores[half][e + 2] + pull) * scale.x;
      }
  }
};

// A warp's 16 rows of the last column of a state (d_k, kD + 1), as StateRows has the others: every lane two of them,
// z[0] and z[2]. Products leave them in all columns alike.
template <int kD>
struct StateColumn {
  float z[1][4];

  __device__ __forceinline__ static std::int64_t place(int half) {
    return std::int64_t{warp() * 16 + lane() / 4 + half * 8} * (kD + 1) + kD;
  }
  __device__ __forceinline__ void load(const float* state) {
#pragma unroll
    for (int e = 0; e < 4; ++e) z[0][e] = state == nullptr ? 0.0f : state[place(e / 2)];
  }
  __device__ __forceinline__ void save(float* state) const {
    if (lane() % 4 == 0) state[place(0)] = z[0][0], state[place(1)] = z[0][2];
  }
  __device__ __forceinline__ void put(const PairColumn<kD>& to) const {
    if (lane() % 4 != 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t high = pack<bfloat16>(z[0][2 * half], 0);
      const std::uint32_t rest = pack<bfloat16>(z[0][2 * half] - low_of(high), 0);
      const int row = warp() * 16 + lane() / 4 + half * 8;
      store_shared_half(high, to.base + static_cast<std::uint32_t>(row * 2));
      store_shared_half(rest, to.base + static_cast<std::uint32_t>((kD + row) * 2));
    }
  }
  __device__ __forceinline__ void fade(const Powers& powers, int count) {
    if (powers.any()) scale_rows(z, powers[count], powers[count]);
  }
  // += the sum of rows of keys, first operands.
  __device__ __forceinline__ void add(const std::uint32_t (&a)[4]) { multiply_add<bfloat16>(z[0], a, kOnes, kOnes); }
  // += the sum of rows of queries times their pulls.
  __device__ __forceinline__ void add(const std::uint32_t (&a)[4], const RowScales<kD>& scales, int step) {
    std::uint32_t high[2], rest[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 16 * step + i * 8 + lane() % 4 * 2;
      const float x = scales[row].y, y = scales[row + 1].y;
      high[i] = pack<bfloat16>(x, y);
      rest[i] = pack<bfloat16>(x - low_of(high[i]), y - high_of(high[i]));
    }
    multiply_add<bfloat16>(z[0], a, high[0], high[1]);
    multiply_add<bfloat16>(z[0], a, rest[0], rest[1]);
  }
};

// A state that runs along, or a sum: with kDivides its last column too.
template <int kD, bool kDivides>
struct RunningState {
  StateRows<kD, kD + kDivides> rows;
  StateColumn<kD> column;

  __device__ __forceinline__ void load(const float* state) {
    rows.load(state);
    if constexpr (kDivides) column.load(state);
  }
  __device__ __forceinline__ void save(float* state) const {
    rows.save(state);
    if constexpr (kDivides) column.save(state);
  }
  __device__ __forceinline__ void put(const SharedTile<kD>& tile, const PairColumn<kD>& to) const {
    rows.put(tile);
    if constexpr (kDivides) column.put(to);
  }
  __device__ __forceinline__ void put_rest(const SharedTile<kD>& tile) const { rows.put_rest(tile); }

  // Goes over a chunk of `count` rows.
  __device__ __forceinline__ void add_keys(const SharedTile<kD>& k, const SharedTile<kD>& v, const Powers& powers,
                                           int count) {
    fade(powers, count);
    rows.add(
        k, v, [&](std::uint32_t(&a)[4], int step) { powers.weigh_rows(a, step, count, false, kD); },
        [&](const std::uint32_t(&a)[4], int) {
          if constexpr (kDivides) column.add(a);
        });
  }
  __device__ __forceinline__ void add_queries(const SharedTile<kD>& q, const SharedTile<kD>& gradient,
                                              const Powers& powers, int count, bool back, const RowScales<kD>& scales) {
    fade(powers, count);
    rows.add(
        q, gradient,
        [&](std::uint32_t(&a)[4], int step) {
          powers.weigh_rows(a, step, count, back, kD);
          if constexpr (kDivides) scales.weigh_rows(a, step);
        },
        [&](const std::uint32_t(&a)[4], int step) {
          if constexpr (kDivides) column.add(a, scales, step);
        });
  }

 private:
  __device__ __forceinline__ void fade(const Powers& powers, int count) {
    rows.fade(powers, count);
    if constexpr (kDivides) column.fade(powers, count);
  }
};

// += the sums of own rows' scores, in all columns.
__device__ __forceinline__ void add_ones(float (&acc)[1][4], const std::uint32_t (&a)[4]) {
  multiply_add<bfloat16>(acc[0], a, kOnes, kOnes);
}
// A number for each own row, added to all its scores.
__device__ __forceinline__ void add_rows(float (&scores)[2][4], float upper, float lower) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    scores[half][0] += upper, scores[half][1] += upper;
    scores[half][2] += lower, scores[half][3] += lower;
  }
}

// Own rows of queries times a column, which stands in all columns of what is left.
template <int kD>
__device__ __forceinline__ void add_column(float (&acc)[1][4], const std::uint32_t (&a)[4],
                                           const PairColumn<kD>& column, int step) {
  const int row = 16 * step + lane() % 4 * 2;
  multiply_add<bfloat16>(acc[0], a, column.high(row), column.high(row + 8));
  multiply_add<bfloat16>(acc[0], a, column.rest(row), column.rest(row + 8));
}

// += (upper, lower)^T column^T: own rows' numbers times a column as a row.
template <int kD>
__device__ __forceinline__ void add_outer(float (&acc)[kD / 8][4], float upper, float lower,
                                          const PairColumn<kD>& column) {
#pragma unroll
  for (int n = 0; n < kD / 8; ++n) {
    const float2 z = column.two(8 * n + lane() % 4 * 2);
    acc[n][0] += upper * z.x, acc[n][1] += upper * z.y;
    acc[n][2] += lower * z.x, acc[n][3] += lower * z.y;
  }
}

}  // namespace fovea::scan::cuda
