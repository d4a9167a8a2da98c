#pragma once

#include "tile/cuda/backward_tiles.cuh"

namespace fovea::tile::cuda {

// The row kernel (dq) and the column kernel (dk, dv) of backward by products of 16 x 8 x 16. 32 streamed rows at a
// time, which is what registers hold. kGeneral: any weight, bias, ALiBi, dropout; else softmax with a positive scale.
template <class T, int kWidth, int kTiles, bool kGeneral, Role kRole>
class MmaBackward : public BackwardTiles<T, kWidth, 64 * kTiles, kRole> {
  using Base = BackwardTiles<T, kWidth, 64 * kTiles, kRole>;
  using Base::arrivals_, Base::first_, Base::own_count_, Base::clear, Base::own_tile, Base::streamed_tile,
      Base::warp_row;
  using Base::kByColumns, Base::call_, Base::piece_, Base::list_, Base::item_, Base::head_, Base::n_streamed_;
  using typename Base::Accumulator;

 public:
  static constexpr int kPart = 32;
  static constexpr bool kKeepsOwn = !kByColumns && kWidth <= 64;  // in registers
  static constexpr int kResident = kGeneral ? 1 : (kWidth <= 64 && kTiles == 1 ? 4 : 2);

  __device__ MmaBackward(const Call& call, const PieceView& piece, const Item& item, std::int32_t head, char* memory)
      : Base(call, piece, item, head, memory) {
    clear(acc1_);
    if constexpr (kByColumns) clear(acc2_);
  }

  __device__ void run() {
    this->fetch_own();
    if constexpr (!kByColumns) this->read_terms(terms_);
    Walk ahead(list_, item_, this->first_head(), this->heads());
    this->fetch(ahead, 0);
    for (std::int32_t i = 0, stage = 0; i < item_.blocks * this->heads(); ++i, stage ^= 1) {
      await_copies<0>();
      __syncthreads();
      if constexpr (kKeepsOwn)
        if (i == 0) keep_own();
      const Arrival now = arrivals_[stage];
      this->fetch(ahead, stage ^ 1);
      visit(now, stage);
    }
    await_copies<0>();
    __syncthreads();
    this->finish(acc1_, acc2_);
  }

 private:
  using Scores = float[kTiles][kPart / 8][4];

  __device__ __forceinline__ void keep_own() {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step)
#pragma unroll
        for (int t = 0; t < kTiles; ++t) own_tile(i).own(kept_[i][step][t], warp_row() + 16 * t, step);
  }

  __device__ __forceinline__ void visit(const Arrival& now, int stage) {
    this->look(now, stage, kGeneral && call_.bias.data != nullptr);
    const std::int32_t mask = this->mask_of(now);
    if (mask == ListView::kNone) return;
    const std::int64_t left = n_streamed_ - std::int64_t{now.block} * kBlock;
#pragma unroll 1
    for (int part = 0; part < kBlock / kPart; ++part) {
      const FragmentMask<kTiles> keeps(list_, mask, warp_row() % kBlock, part, left);
      Scores s, g;
      multiply<0>(streamed_tile(stage, 0), part * kPart, s);
      multiply<1>(streamed_tile(stage, 1), part * kPart, g);
      if constexpr (kGeneral)
        vjp_any(now, stage, part, keeps, s, g);
      else
        vjp_softmax(stage, part, keeps, s, g);
      gather(g, streamed_tile(stage, 0), part * kPart, acc1_);
      if constexpr (kByColumns) gather(s, streamed_tile(stage, 1), part * kPart, acc2_);
    }
  }

  // s = own rows . streamed rows [row, row + kPart)
  template <int kOperand>
  __device__ __forceinline__ void multiply(const SharedTile<kWidth>& streamed, int row, Scores& s) const {
    clear(s);
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      std::uint32_t a[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        if constexpr (kKeepsOwn) {
#pragma unroll
          for (int i = 0; i < 4; ++i) a[t][i] = kept_[kOperand][step][t][i];
        } else {
          own_tile(kOperand).own(a[t], warp_row() + 16 * t, step);
        }
      }
#pragma unroll
      for (int pair = 0; pair < kPart / 16; ++pair) {
        std::uint32_t b[4];
        streamed.across(b, row + 16 * pair, step);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          multiply_add<T>(s[t][2 * pair], a[t], b[0], b[1]);
          multiply_add<T>(s[t][2 * pair + 1], a[t], b[2], b[3]);
        }
      }
    }
  }

  // Scores become weights, gradients of weights those of scores.
  __device__ __forceinline__ void vjp_softmax(int stage, int part, const FragmentMask<kTiles>& keeps, Scores& s,
                                              Scores& g) const {
    const float scale = call_.score_scale;
#pragma unroll
    for (int n = 0; n < kPart / 8; ++n) {
      RowStatistic<float> across[2];
      if constexpr (kByColumns) this->streamed_terms(stage, part * kPart + 8 * n, across);
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const RowStatistic<float> row = kByColumns ? across[e % 2] : terms_[t][e / 2];
          const float p = quick_exp2(fmaf(s[t][n][e], scale, -row.reopened));
          g[t][n][e] = p * (g[t][n][e] - row.delta);
          s[t][n][e] = p;
        }
    }
    if (keeps.is_whole) return;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool kept = keeps.keeps(t, 8 * n, e);
          g[t][n][e] = kept ? g[t][n][e] : 0.0f;
          s[t][n][e] = kept ? s[t][n][e] : 0.0f;
        }
  }

  __device__ __forceinline__ void vjp_any(const Arrival& now, int stage, int part, const FragmentMask<kTiles>& keeps,
                                          Scores& s, Scores& g) const {
    const PairGradient gradient(call_, piece_, now.head);
    const std::int64_t streamed = std::int64_t{now.block} * kBlock + part * kPart;
#pragma unroll
    for (int n = 0; n < kPart / 8; ++n) {
      RowStatistic<float> across[2];
      if constexpr (kByColumns) this->streamed_terms(stage, part * kPart + 8 * n, across);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const std::int64_t own = first_ + warp_row() + 16 * t, other = streamed + 8 * n;
        const auto kept = [&](int e) {
          return (keeps.is_whole || keeps.keeps(t, 8 * n, e)) && warp_row() + 16 * t + row_of(e) < own_count_;
        };
        const auto terms = [&](int e) { return kByColumns ? across[e % 2] : terms_[t][e / 2]; };
        gradient.apply<kByColumns>(kByColumns ? Pair{other, own} : Pair{own, other}, kept, terms, s[t][n], g[t][n]);
      }
    }
  }

  // acc += weights . streamed rows [row, row + kPart)
  __device__ __forceinline__ void gather(const Scores& s, const SharedTile<kWidth>& streamed, int row,
                                         Accumulator& acc) {
#pragma unroll
    for (int step = 0; step < kPart / 16; ++step) {
      std::uint32_t a[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[t][i] = pack<T>(s[t][2 * step + i / 2][i % 2 * 2], s[t][2 * step + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int pair = 0; pair < kWidth / 16; ++pair) {
        std::uint32_t b[4];
        streamed.along(b, row + 16 * step, pair);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          multiply_add<T>(acc[t][2 * pair], a[t], b[0], b[1]);
          multiply_add<T>(acc[t][2 * pair + 1], a[t], b[2], b[3]);
        }
      }
    }
  }

  std::uint32_t kept_[2][kKeepsOwn ? kWidth / 16 : 1][kTiles][4];
  Accumulator acc1_;
  std::conditional_t<kByColumns, Accumulator, char> acc2_;
  RowStatistic<float> terms_[kTiles][2];
};

// Grid: (items, heads), by columns (items, kv heads).
template <class T, int kWidth, int kTiles, bool kGeneral, Role kRole>
__global__ void __launch_bounds__(kMmaThreads, (MmaBackward<T, kWidth, kTiles, kGeneral, kRole>::kResident))
    mma_backward_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(1024) char memory[];
  const Item item = call.items[blockIdx.x];
  const PieceView& piece = call.pieces[item.piece];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t kv_head = kRole == Role::column ? head : call.kv_head_of(head);
  if (piece.kv_head >= 0 && piece.kv_head != kv_head) return report(call, item, false);
  MmaBackward<T, kWidth, kTiles, kGeneral, kRole>(call, piece, item, head, memory).run();
}

}  // namespace fovea::tile::cuda
