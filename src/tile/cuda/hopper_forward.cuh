#pragma once

#include "tile/cuda/hopper.cuh"
#include "tile/cuda/output_rows.cuh"

namespace fovea::tile::cuda {

// Softmax forward as MmaForward has it, with the products of a warpgroup for its 64 query rows: keys and values are
// read from shared memory once for 64 rows instead of once for 32. Two to four blocks fit a multiprocessor and hide
// what a block waits for: at width 128 that is faster than a block of two groups that leaves its last product running.
template <class T, int kWidth>
class HopperForward {
 public:
  using Tile = PanelTile<kWidth, kBlock>;
  static constexpr int kStages = 2, kResident = kWidth <= 64 ? 4 : 2;
  static constexpr int kFront = 1024;  // for arrivals; tiles stand at multiples of it
  static constexpr int kBytes = kFront + (1 + 2 * kStages) * Tile::bytes();

  __device__ HopperForward(const Call& call, const PieceView& piece, const Item& item, std::int32_t head, char* memory)
      : call_(call),
        piece_(piece),
        list_(piece.rows[0]),
        item_(item),
        head_(head),
        nk_(piece.nk),
        memory_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        arrivals_(reinterpret_cast<Arrival*>(memory)) {
    keys_ = source_of<T>(call.k, piece, call.kv_head_of(head), true);
    values_ = source_of<T>(call.v, piece, call.kv_head_of(head), true);
    first_ = std::int64_t{item.tile} * kBlock;
  }

  __device__ void run() {
    const Source<T> q = source_of<T>(call_.q, piece_, head_, false);
    const int count = static_cast<int>(min(piece_.nq - first_, std::int64_t{kBlock}));
    own().template fetch<kBlock>(q.data + first_ * q.stride, q.stride, count, call_.d_k);
    Walk ahead(list_, item_, head_, 1);
    fetch(ahead, 0);
    for (std::int32_t i = 0, stage = 0; i < item_.blocks; ++i, stage ^= 1) {
      await_copies<0>();
      show_to_tensor_cores();
      __syncthreads();
      const Arrival now = arrivals_[stage];
      fetch(ahead, stage ^ 1);
      visit(now, stage);
    }
    await_copies<0>();
    __syncthreads();
    item_.slot < 0 ? store() : leave();
    report(call_, item_, strange_);
  }

 private:
  __device__ Tile own() const { return {memory_ + kFront}; }
  __device__ Tile keys(int stage) const {
    return {memory_ + static_cast<std::uint32_t>(kFront + (1 + 2 * stage) * Tile::bytes())};
  }
  __device__ Tile values(int stage) const { return {keys(stage).base + Tile::bytes()}; }

  __device__ void fetch(Walk& ahead, int stage) {
    if (!ahead.done()) {
      const std::int64_t first = std::int64_t{ahead.block()} * kBlock;
      const int count = static_cast<int>(min(nk_ - first, std::int64_t{kBlock}));
      keys(stage).template fetch<kBlock>(keys_.data + first * keys_.stride, keys_.stride, count, call_.d_k);
      values(stage).template fetch<kBlock>(values_.data + first * values_.stride, values_.stride, count, call_.d_v);
      if (threadIdx.x == 0) arrivals_[stage] = {ahead.block(), head_, {ahead.entry.mask[0], ahead.entry.mask[1]}};
      ahead.next();
    }
    commit_copies();
  }

  __device__ __forceinline__ void visit(const Arrival& now, int stage) {
    if (now.mask[0] != Plan::kWhole) strange_ |= values(stage).template is_strange_in<T>(kBlock);
    const std::int32_t mask = now.mask[0];
    if (mask == ListView::kNone) return;
    float s[1][8][4] = {};
    score(stage, s[0]);
    const std::int64_t left = nk_ - std::int64_t{now.block} * kBlock;
#pragma unroll
    for (int part = 0; part < 2; ++part) hide(FragmentMask<1>(list_, mask, warp() * 16, part, left), 32 * part, s);
    rows_.weigh(s, call_.score_scale);
    gather(stage, s[0]);
  }

  __device__ __forceinline__ void score(int stage, float (&s)[8][4]) {
    begin_products();
#pragma unroll
    for (int p = 0; p < Tile::kPanels; ++p)
      multiply_panel<T, Tile::kColumns>(s, own().panel(p).base, keys(stage).panel(p).base, p > 0);
    finish_products(s);
    settle(rows_.o[0]);
  }

  __device__ __forceinline__ void gather(int stage, const float (&s)[8][4]) {
    std::uint32_t a[4][4];
    pack_operands<T>(s, a);
    begin_products();
    add_tile<T>(rows_.o[0], a, values(stage));
    finish_products(rows_.o[0]);
  }

  __device__ void store() {
    rows_.close(call_, piece_, head_, first_ + warp() * 16);
    rows_.store(call_, {piece_, head_, first_, kBlock}, own());
  }

  __device__ void leave() const {
    const PartialShape shape{kBlock, kWidth, 0};
    rows_.leave(call_.partial + shape.offset(item_.slot, call_.heads, head_), shape,
                static_cast<int>(min(piece_.nq - first_, std::int64_t{kBlock})));
  }

  const Call& call_;
  const PieceView& piece_;
  const ListView& list_;
  Item item_;
  std::int32_t head_;
  std::int64_t nk_;
  Source<T> keys_, values_;
  std::uint32_t memory_;
  Arrival* arrivals_;
  std::int64_t first_;
  OutputRows<T, kWidth, 1> rows_;
  bool strange_ = false;
};

// Grid: (items, heads).
template <class T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads, (HopperForward<T, kWidth>::kResident))
    hopper_forward_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(1024) char memory[];
  const Item item = call.items[blockIdx.x];
  const PieceView& piece = call.pieces[item.piece];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  if (piece.kv_head >= 0 && piece.kv_head != call.kv_head_of(head)) return report(call, item, false);
  HopperForward<T, kWidth>(call, piece, item, head, memory).run();
}

}  // namespace fovea::tile::cuda
