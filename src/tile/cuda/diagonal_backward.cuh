#pragma once

#include "policy/softmax.h"
#include "tile/cuda/mma_walk.cuh"

namespace fovea::tile::cuda {

// Softmax backward where each query tile reads the key block of its own number alone and nobody else reads that: the
// blocks of `diag`, and sequences of up to 64 rows. One block makes dq, dk and dv of such a pair of tiles, so that
// every array is moved once; a row's pairs are all here, so neither o nor what forward rounded away is read. The
// weights and the gradients of scores, (64, 64) halves each, cross from warps of query rows to warps of key rows in
// shared memory.
template <class T, int kWidth>
class DiagonalBackward {
  using Tile = SharedTile<kWidth>;
  using Weights = SharedTile<kBlock>;
  using Scores = float[kBlock / 8][4];
  using Accumulator = float[1][kWidth / 8][4];
  using Operands = std::uint32_t[kBlock / 16][4];
  enum Index : std::uint32_t { kQ, kK, kV, kDo };

 public:
  static constexpr int kBytes = 4 * Tile::bytes(kBlock) + 2 * Weights::bytes(kBlock);
  static constexpr int kResident = kWidth <= 64 ? 4 : 2;

  __device__ DiagonalBackward(const Call& call, const PieceView& piece, const Item& item, std::int32_t head,
                              char* memory)
      : call_(call),
        piece_(piece),
        item_(item),
        head_(head),
        memory_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        first_(std::int64_t{item.tile} * kBlock),
        queries_(static_cast<std::int32_t>(min(piece.nq - first_, std::int64_t{kBlock}))),
        keys_(static_cast<std::int32_t>(min(piece.nk - first_, std::int64_t{kBlock}))) {}

  __device__ void run() {
    fetch(kQ, call_.q, false, call_.d_k);
    fetch(kK, call_.k, true, call_.d_k);
    fetch(kV, call_.v, true, call_.d_v);
    fetch(kDo, call_.d_o, false, call_.d_v);
    commit_copies();
    float reopened[2], less[2];
    read_rows(reopened, less);
    await_copies<0>();
    __syncthreads();
    const std::int32_t mask = piece_.rows[0].entries[item_.begin].mask[0];
    const bool strange = mask != Plan::kWhole && (is_strange(kQ) || is_strange(kK) || is_strange(kDo));
    Scores s, g;
    multiply(kQ, kK, s);
    multiply(kDo, kV, g);
    weigh(mask, reopened, s, g);
    vjp(less, s, g);
    leave(weights(0), s);
    leave(weights(1), g);
    __syncthreads();
    finish(g);
    report(call_, item_, strange);
  }

 private:
  __device__ Tile tile(Index i) const { return {memory_ + i * Tile::bytes(kBlock)}; }
  __device__ Weights weights(std::uint32_t i) const {
    return {memory_ + 4 * Tile::bytes(kBlock) + i * Weights::bytes(kBlock)};
  }
  __device__ bool is_strange(Index i) const { return tile(i).template is_strange_in<T>(kBlock); }

  __device__ void fetch(Index to, const In& array, bool of_keys, std::int32_t width) const {
    const Source<T> rows = source_of<T>(array, piece_, of_keys ? call_.kv_head_of(head_) : head_, of_keys);
    tile(to).template fetch<kBlock>(rows.data + first_ * rows.stride, rows.stride, of_keys ? keys_ : queries_, width);
  }

  // The log-sum-exp of a lane's two rows as weights want it, and what their sums of gradients are less.
  __device__ void read_rows(float (&reopened)[2], float (&less)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = warp() * 16 + lane() / 4 + 8 * half;
      reopened[half] = math::kInfinity<float>, less[half] = 0;
      if (i >= queries_) continue;
      const std::int64_t row = piece_.query_row(first_ + i);
      const auto at = [&](const In& a) {
        return static_cast<const float*>(a.data)[offset_of(a, piece_.batch, row, head_)];
      };
      reopened[half] = Softmax::reopen(at(call_.lse));
      if (call_.d_lse.data != nullptr) less[half] = at(call_.d_lse);
    }
  }

  // s = own rows of a . b^T
  __device__ __forceinline__ void multiply(Index a, Index b, Scores& s) const {
#pragma unroll
    for (auto& fragment : s)
#pragma unroll
      for (float& x : fragment) x = 0;
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      std::uint32_t own[4];
      tile(a).own(own, warp() * 16, step);
#pragma unroll
      for (int pair = 0; pair < kBlock / 16; ++pair) {
        std::uint32_t across[4];
        tile(b).across(across, 16 * pair, step);
        multiply_add<T>(s[2 * pair], own, across[0], across[1]);
        multiply_add<T>(s[2 * pair + 1], own, across[2], across[3]);
      }
    }
  }

  // Products become weights; of pairs that are not kept neither weight nor gradient stays.
  __device__ __forceinline__ void weigh(std::int32_t mask, const float (&reopened)[2], Scores& s, Scores& g) const {
#pragma unroll
    for (int n = 0; n < kBlock / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = quick_exp2(fmaf(s[n][e], call_.score_scale, -reopened[e / 2]));
    if (mask == Plan::kWhole && keys_ == kBlock) return;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const FragmentMask<1> keeps(piece_.rows[0], mask, warp() * 16, part, keys_);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (!keeps.keeps(0, 8 * n, e)) s[4 * part + n][e] = g[4 * part + n][e] = 0;
    }
  }

  // Gradients of weights become those of scores.
  __device__ __forceinline__ void vjp(const float (&less)[2], const Scores& p, Scores& g) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kBlock / 8; ++n)
        sum += p[n][2 * half] * g[n][2 * half] + p[n][2 * half + 1] * g[n][2 * half + 1];
      const float delta = quad_sum(sum) - less[half];
#pragma unroll
      for (int n = 0; n < kBlock / 8; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) g[n][e] = p[n][e] * (g[n][e] - delta);
    }
  }

  __device__ __forceinline__ static void leave(const Weights& to, const Scores& x) {
#pragma unroll
    for (int n = 0; n < kBlock / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_shared(pack<T>(x[n][2 * half], x[n][2 * half + 1]),
                     to.at(warp() * 16 + lane() / 4 + 8 * half, n) + static_cast<std::uint32_t>(lane() % 4 * 4));
  }

  // Everybody has read the values' tile: each warp's rows of it are where its results are laid out.
  __device__ __forceinline__ void finish(const Scores& g) const {
    const float scale = static_cast<float>(call_.scale);
    Operands own;
#pragma unroll
    for (int step = 0; step < kBlock / 16; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        own[step][i] = pack<T>(g[2 * step + i / 2][i % 2 * 2], g[2 * step + i / 2][i % 2 * 2 + 1]);
    store(own, kK, scale, {call_.dq, false, call_.d_k});
    turn(weights(0), own);
    store(own, kDo, 1.0f, {call_.dv, true, call_.d_v});
    turn(weights(1), own);
    store(own, kQ, scale, {call_.dk, true, call_.d_k});
  }

  // A warp's 16 columns of a tile as first operands: rows of its transpose.
  __device__ __forceinline__ static void turn(const Weights& from, Operands& a) {
#pragma unroll
    for (int step = 0; step < kBlock / 16; ++step)
      load_transposed(a[step], from.at(16 * step + lane() / 16 * 8 + lane() % 8, 2 * warp() + lane() / 8 % 2));
  }

  struct Result {
    const Out& array;
    bool of_keys;
    std::int32_t width;
  };
  // Writes scale a b.
  __device__ __forceinline__ void store(const Operands& a, Index b, float scale, const Result& to) const {
    Accumulator acc{};
#pragma unroll
    for (int step = 0; step < kBlock / 16; ++step)
#pragma unroll
      for (int pair = 0; pair < kWidth / 16; ++pair) {
        std::uint32_t along[4];
        tile(b).along(along, 16 * step, pair);
        multiply_add<T>(acc[0][2 * pair], a[step], along[0], along[1]);
        multiply_add<T>(acc[0][2 * pair + 1], a[step], along[2], along[3]);
      }
#pragma unroll
    for (auto& fragment : acc[0])
#pragma unroll
      for (float& x : fragment) x *= scale;
    const std::int64_t row = to.of_keys ? piece_.key_row(first_) : piece_.query_row(first_);
    store_own<T, kWidth, 1>(
        tile(kV),
        {to.array.data, offset_of(to.array, piece_.batch, row, head_),
         to.array.row * (to.of_keys ? piece_.k_step : piece_.q_step), to.of_keys ? keys_ : queries_, to.width},
        acc);
  }

  const Call& call_;
  const PieceView& piece_;
  const Item& item_;
  std::int32_t head_;
  std::uint32_t memory_;
  std::int64_t first_;
  std::int32_t queries_, keys_;
};

// Grid: (items, heads).
template <class T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads, (DiagonalBackward<T, kWidth>::kResident))
    diagonal_backward_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(1024) char memory[];
  const Item item = call.items[blockIdx.x];
  const PieceView& piece = call.pieces[item.piece];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  if (piece.kv_head >= 0 && piece.kv_head != call.kv_head_of(head)) return report(call, item, false);
  DiagonalBackward<T, kWidth>(call, piece, item, head, memory).run();
}

}  // namespace fovea::tile::cuda
