#pragma once

#include "tile/cuda/hopper.cuh"
#include "tile/cuda/output_rows.cuh"

namespace fovea::tile::cuda {

// Softmax forward as MmaForward has it, with products of whole warpgroups: each of kGroups has 64 query rows. Keys and
// values are read from shared memory once for 64 rows instead of once for 32.
template <class T, int kWidth, int kGroups>
class HopperForward {
 public:
  static constexpr int kOwn = 64 * kGroups, kThreads = 128 * kGroups;
  using Own = PanelTile<kWidth, kOwn>;
  using Streamed = PanelTile<kWidth, kBlock>;
  // Two groups leave the last product with the values running while the next block is looked at: that takes more
  // stages. With one group, four blocks fit a multiprocessor and hide it better.
  static constexpr bool kDefers = kGroups == 2;
  static constexpr int kAhead = kDefers ? 2 : 1, kStages = kDefers ? 4 : 2;
  static constexpr int kResident = (kWidth <= 64 ? 4 : 2) / kGroups;
  static constexpr int kFront = 1024;  // for arrivals; tiles stand at multiples of it
  static constexpr int kBytes = kFront + Own::bytes() + 2 * kStages * Streamed::bytes();

  __device__ HopperForward(const Call& call, const PieceView& piece, const Item& item, std::int32_t head, char* memory)
      : call_(call),
        piece_(piece),
        list_(piece.rows[kGroups - 1]),
        item_(item),
        head_(head),
        nk_(piece.nk),
        memory_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        arrivals_(reinterpret_cast<Arrival*>(memory)) {
    keys_ = source_of<T>(call.k, piece, call.kv_head_of(head), true);
    values_ = source_of<T>(call.v, piece, call.kv_head_of(head), true);
    first_ = std::int64_t{item.tile} * kOwn;
  }

  __device__ void run() {
    const Source<T> q = source_of<T>(call_.q, piece_, head_, false);
    const int count = static_cast<int>(min(piece_.nq - first_, std::int64_t{kOwn}));
    own().template fetch<kOwn, kThreads>(q.data + first_ * q.stride, q.stride, count, call_.d_k);
    Walk ahead(list_, item_, head_, 1);
    for (int s = 0; s < kAhead; ++s) fetch(ahead, s);
    for (std::int32_t i = 0; i < item_.blocks; ++i) {
      const int stage = i % kStages;
      await_copies<kAhead - 1>();
      show_to_tensor_cores();
      __syncthreads();
      const Arrival now = arrivals_[stage];
      fetch(ahead, (i + kAhead) % kStages);
      visit(now, stage);
    }
    await_copies<0>();
    await_products<0>();
    settle(rows_.o[0]);
    __syncthreads();
    item_.slot < 0 ? store() : leave();
    report(call_, item_, strange_);
  }

 private:
  __device__ Own own() const { return {memory_ + kFront}; }
  __device__ Streamed keys(int stage) const {
    return {memory_ + static_cast<std::uint32_t>(kFront + Own::bytes() + 2 * stage * Streamed::bytes())};
  }
  __device__ Streamed values(int stage) const { return {keys(stage).base + Streamed::bytes()}; }
  __device__ static std::uint32_t group() { return threadIdx.x / 128; }

  __device__ void fetch(Walk& ahead, int stage) {
    if (!ahead.done()) {
      const std::int64_t first = std::int64_t{ahead.block()} * kBlock;
      const int count = static_cast<int>(min(nk_ - first, std::int64_t{kBlock}));
      keys(stage).template fetch<kBlock, kThreads>(keys_.data + first * keys_.stride, keys_.stride, count, call_.d_k);
      values(stage).template fetch<kBlock, kThreads>(values_.data + first * values_.stride, values_.stride, count,
                                                     call_.d_v);
      if (threadIdx.x == 0) arrivals_[stage] = {ahead.block(), head_, {ahead.entry.mask[0], ahead.entry.mask[1]}};
      ahead.next();
    }
    commit_copies();
  }

  __device__ __forceinline__ void visit(const Arrival& now, int stage) {
    if (now.mask[0] != Plan::kWhole || (kGroups == 2 && now.mask[1] != Plan::kWhole))
      strange_ |= values(stage).template is_strange_in<T, kThreads>(kBlock);
    const std::int32_t mask = kGroups == 2 && group() == 1 ? now.mask[1] : now.mask[0];
    if (mask == ListView::kNone) return await_products<0>();  // whose tiles will be overwritten
    float s[1][8][4] = {};
    score(stage, s[0]);
    const std::int64_t left = nk_ - std::int64_t{now.block} * kBlock;
#pragma unroll
    for (int part = 0; part < 2; ++part) hide(FragmentMask<1>(list_, mask, warp() % 4 * 16, part, left), 32 * part, s);
    rows_.weigh(s, call_.score_scale);
    gather(stage, s[0]);
  }

  __device__ __forceinline__ void score(int stage, float (&s)[8][4]) {
    constexpr std::uint32_t kGroup = Own::Panel::bytes(64);
    begin_products();
#pragma unroll
    for (int p = 0; p < Own::kPanels; ++p)
      multiply_panel<T, Own::kColumns>(s, own().panel(p).base + group() * kGroup, keys(stage).panel(p).base, p > 0);
    finish_products(s);
    settle(rows_.o[0]);
  }

  __device__ __forceinline__ void gather(int stage, const float (&s)[8][4]) {
    std::uint32_t a[4][4];
    pack_operands<T>(s, a);
    begin_products();
    add_tile<T>(rows_.o[0], a, values(stage));
    kDefers ? commit_products() : finish_products(rows_.o[0]);
  }

  __device__ void store() {
    rows_.close(call_, piece_, head_, first_ + warp() * 16);
    store_own<T>(own(), rows_.target(call_, call_.out, {piece_, head_, first_, kOwn}), rows_.o);
    if (call_.out_rest.data == nullptr) return;
    rows_.take_rounded();
    store_own<T>(own(), rows_.target(call_, call_.out_rest, {piece_, head_, first_, kOwn}), rows_.o);
  }

  __device__ void leave() const {
    const PartialShape shape{kOwn, kWidth, 0};
    rows_.leave(call_.partial + shape.offset(item_.slot, call_.heads, head_), shape,
                static_cast<int>(min(piece_.nq - first_, std::int64_t{kOwn})));
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
template <class T, int kWidth, int kGroups>
__global__ void __launch_bounds__(128 * kGroups, (HopperForward<T, kWidth, kGroups>::kResident))
    hopper_forward_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(1024) char memory[];
  const Item item = call.items[blockIdx.x];
  const PieceView& piece = call.pieces[item.piece];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  if (piece.kv_head >= 0 && piece.kv_head != call.kv_head_of(head)) return report(call, item, false);
  HopperForward<T, kWidth, kGroups>(call, piece, item, head, memory).run();
}

}  // namespace fovea::tile::cuda
