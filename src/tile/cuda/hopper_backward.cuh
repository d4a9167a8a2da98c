#pragma once

#include "tile/cuda/backward_tiles.cuh"
#include "tile/cuda/hopper.cuh"

namespace fovea::tile::cuda {

// Softmax backward as MmaBackward has it, with the products of a warpgroup for its 64 own rows. Weights are made while
// the second product runs. Two or three blocks fit a multiprocessor and hide the rest: at width 64 that is a tenth to a
// fifth faster than a block of two groups that leaves its last products running.
template <class T, int kWidth, Role kRole>
class HopperBackward : public BackwardTiles<T, kWidth, kBlock, kRole, true> {
  using Base = BackwardTiles<T, kWidth, kBlock, kRole, true>;
  using Base::kByColumns, Base::call_, Base::list_, Base::item_, Base::n_streamed_, Base::arrivals_, Base::own_tile,
      Base::streamed_tile;
  using typename Base::Accumulator;
  using Tile = PanelTile<kWidth>;

 public:
  static constexpr int kResident = kWidth <= 32 || (kWidth <= 64 && !kByColumns) ? 3 : 2;

  __device__ HopperBackward(const Call& call, const PieceView& piece, const Item& item, std::int32_t head, char* memory)
      : Base(call, piece, item, head, memory) {
    this->clear(acc1_);
    if constexpr (kByColumns) this->clear(acc2_);
  }

  __device__ void run() {
    this->fetch_own();
    if constexpr (!kByColumns) this->read_terms(terms_);
    Walk ahead(list_, item_, this->first_head(), this->heads());
    this->fetch(ahead, 0);
    const std::int32_t blocks = item_.blocks * this->heads();
    for (std::int32_t i = 0, stage = 0; i < blocks; ++i, stage ^= 1) {
      await_copies<0>();
      show_to_tensor_cores();
      __syncthreads();
      const Arrival now = arrivals_[stage];
      this->fetch(ahead, stage ^ 1);
      visit(now, stage);
    }
    await_copies<0>();
    __syncthreads();
    this->finish(acc1_, acc2_);
  }

 private:
  __device__ __forceinline__ void settle_all() {
    settle(acc1_[0]);
    if constexpr (kByColumns) settle(acc2_[0]);
  }

  __device__ __forceinline__ void visit(const Arrival& now, int stage) {
    this->look(now, stage, false);
    const std::int32_t mask = this->mask_of(now);
    if (mask == ListView::kNone) return;
    float s[8][4] = {}, g[8][4] = {};
    begin_products();
    multiply(own_tile(0), streamed_tile(stage, 0), s);
    commit_products();
    multiply(own_tile(1), streamed_tile(stage, 1), g);
    commit_products();
    await_products<1>();
    settle(s);
    weigh(stage, s);
    const std::int64_t left = n_streamed_ - std::int64_t{now.block} * kBlock;
    const bool is_whole = mask == Plan::kWhole && left >= kBlock;
    if (!is_whole) drop(mask, left, s);
    await_products<0>();
    settle(g);
    vjp(stage, s, g);
    if (!is_whole) drop(mask, left, g);
    std::uint32_t a[4][4], b[4][4];
    if constexpr (kByColumns) pack_operands<T>(s, a);
    pack_operands<T>(g, b);
    begin_products();  // registers that are read may not be written while products run
    if constexpr (kByColumns) add_tile<T>(acc2_[0], a, streamed_tile(stage, 1));
    add_tile<T>(acc1_[0], b, streamed_tile(stage, 0));
    commit_products();
    await_products<0>();
    settle_all();
  }

  __device__ __forceinline__ static void multiply(const Tile& a, const Tile& b, float (&s)[8][4]) {
#pragma unroll
    for (int p = 0; p < Tile::kPanels; ++p)
      multiply_panel<T, Tile::kColumns>(s, a.panel(p).base, b.panel(p).base, p > 0);
  }

  // Products become weights.
  __device__ __forceinline__ void weigh(int stage, float (&s)[8][4]) const {
    const float scale = call_.score_scale;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      RowStatistic<float> across[2];
      if constexpr (kByColumns) this->streamed_terms(stage, 8 * n, across);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s[n][e] = quick_exp2(fmaf(s[n][e], scale, -(kByColumns ? across[e % 2] : terms_[0][e / 2]).reopened));
    }
  }

  // Gradients of weights become those of scores.
  __device__ __forceinline__ void vjp(int stage, const float (&p)[8][4], float (&g)[8][4]) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      RowStatistic<float> across[2];
      if constexpr (kByColumns) this->streamed_terms(stage, 8 * n, across);
#pragma unroll
      for (int e = 0; e < 4; ++e) g[n][e] = p[n][e] * (g[n][e] - (kByColumns ? across[e % 2] : terms_[0][e / 2]).delta);
    }
  }

  // Zeroes what belongs to pairs that are not kept.
  __device__ __forceinline__ void drop(std::int32_t mask, std::int64_t left, float (&x)[8][4]) const {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const FragmentMask<1> keeps(list_, mask, warp() * 16, part, left);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) x[4 * part + n][e] = keeps.keeps(0, 8 * n, e) ? x[4 * part + n][e] : 0.0f;
    }
  }

  Accumulator acc1_;
  std::conditional_t<kByColumns, Accumulator, char> acc2_;
  RowStatistic<float> terms_[1][2];
};

// Grid: (items, heads), by columns (items, kv heads).
template <class T, int kWidth, Role kRole>
__global__ void __launch_bounds__(kMmaThreads, (HopperBackward<T, kWidth, kRole>::kResident))
    hopper_backward_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(1024) char memory[];
  const Item item = call.items[blockIdx.x];
  const PieceView& piece = call.pieces[item.piece];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t kv_head = kRole == Role::column ? head : call.kv_head_of(head);
  if (piece.kv_head >= 0 && piece.kv_head != kv_head) return report(call, item, false);
  HopperBackward<T, kWidth, kRole>(call, piece, item, head, memory).run();
}

}  // namespace fovea::tile::cuda
