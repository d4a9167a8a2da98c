#pragma once

#include "tile/cuda/mma_walk.cuh"

namespace fovea::tile::cuda {

// The outputs of a warp's 16 kTiles query rows with the running maxima and sums of their weights.
template <class T, int kWidth, int kTiles>
struct OutputRows {
  float o[kTiles][kWidth / 8][4];
  float top[kTiles][2], sum[kTiles][2];

  __device__ __forceinline__ OutputRows() {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) top[t][half] = Softmax::kFloor<float>, sum[t][half] = 0;
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) o[t][n][e] = 0;
    }
  }

  // Products become weights, not normalised; what was gathered is rescaled. The scale is positive.
  template <int kColumns>
  __device__ __forceinline__ void weigh(float (&s)[kTiles][kColumns][4], float scale) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = s[t][0][2 * half];
#pragma unroll
        for (int n = 0; n < kColumns; ++n) most = fmaxf(most, fmaxf(s[t][n][2 * half], s[t][n][2 * half + 1]));
        raise(t, half, quad_max(most) * scale);
        const float low = -top[t][half];
        float more = 0;
#pragma unroll
        for (int n = 0; n < kColumns; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            s[t][n][e] = quick_exp2(fmaf(s[t][n][e], scale, low));
            more += s[t][n][e];
          }
        sum[t][half] += more;
      }
  }

  // A new maximum: sums and outputs so far are worth less.
  __device__ __forceinline__ void raise(int t, int half, float candidate) {
    const float now = math::larger(candidate, top[t][half]), factor = quick_exp2(top[t][half] - now);
    top[t][half] = now;
    if (!__any_sync(0xffffffffu, factor != 1.0f)) return;
    sum[t][half] *= factor;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      o[t][n][2 * half] *= factor;
      o[t][n][2 * half + 1] *= factor;
    }
  }

  // Divides by the sums and writes the log-sum-exp; query `first` is the warp's first row.
  __device__ __forceinline__ void close(const Call& call, const PieceView& piece, std::int32_t head,
                                        std::int64_t first) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float all = quad_sum(sum[t][half]), factor = Softmax::close(all);
#pragma unroll
        for (int n = 0; n < kWidth / 8; ++n) {
          o[t][n][2 * half] *= factor;
          o[t][n][2 * half + 1] *= factor;
        }
        const std::int64_t query = first + 16 * t + lane() / 4 + 8 * half;
        if (call.out_lse.data == nullptr || lane() % 4 != 0 || query >= piece.nq) continue;
        const std::int64_t at = offset_of(call.out_lse, piece.batch, piece.query_row(query), head);
        static_cast<float*>(call.out_lse.data)[at] = Softmax::statistic(top[t][half], all);
      }
  }

  // What is left of the rows when they have been rounded.
  __device__ __forceinline__ void take_rounded() {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) o[t][n][e] -= static_cast<float>(T(o[t][n][e]));
  }

  // Where the rows of an own tile go that begins with query `first`.
  struct Place {
    const PieceView& piece;
    std::int32_t head;
    std::int64_t first;
    int own;
  };
  __device__ static RowTarget target(const Call& call, const Out& to, const Place& at) {
    const auto& [piece, head, first, own] = at;
    return {to.data, offset_of(to, piece.batch, piece.query_row(first), head), to.row * piece.q_step,
            static_cast<std::int32_t>(min(piece.nq - first, std::int64_t{own})), call.d_v};
  }

  // Writes them, and what they lose where that is wanted, through tiles that nobody else uses.
  template <class Tile>
  __device__ __forceinline__ void store(const Call& call, const Place& at, const Tile& room) {
    if (call.output_type == DType::f32) return store_wide<kWidth, kTiles>(target(call, call.out, at), o);
    store_own<T>(room, target(call, call.out, at), o);
    if (call.out_rest.data == nullptr) return;
    take_rounded();
    store_own<T>(room, target(call, call.out_rest, at), o);
  }
  // The sums of a part of a list; see PartialShape.
  __device__ __forceinline__ void leave(float* to, const PartialShape& shape, int count) const {
    leave_sums<kWidth, kTiles>(to, shape.columns(), count, o);
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float all = quad_sum(sum[t][half]);
        const int row = warp() * 16 * kTiles + 16 * t + lane() / 4 + 8 * half;
        if (lane() % 4 == 0 && row < count)
          *reinterpret_cast<float2*>(to + row * shape.columns() + shape.width1) = {top[t][half], all};
      }
  }
};

// Columns [first, first + 32) of scores.
template <int kTiles, int kColumns>
__device__ __forceinline__ void hide(const FragmentMask<kTiles>& keeps, int first, float (&s)[kTiles][kColumns][4]) {
  if (keeps.is_whole) return;
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& x = s[t][first / 8 + n][e];
        x = keeps.keeps(t, 8 * n, e) ? x : -math::kInfinity<float>;
      }
}

}  // namespace fovea::tile::cuda
