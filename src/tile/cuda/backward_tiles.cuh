#pragma once

#include "tile/cuda/mma_walk.cuh"
#include "tile/cuda/simt_launch.h"

namespace fovea::tile::cuda {

// What the tensor-core kernels of backward have in common, as simt.cuh has it: own a1, a2; streamed b1, b2;
// S = a1 b1^T, dP = a2 b2^T, then dS b1 and, by columns, P b2. Here: how tiles and row statistics come into shared
// memory, and how results leave. kOfPanels: tiles as warpgroups read them.
template <class T, int kWidth, int kOwn, Role kRole, bool kOfPanels = false>
class BackwardTiles {
  static_assert(!kOfPanels || kOwn == kBlock);

 public:
  static constexpr bool kByColumns = kRole == Role::column;
  using Tile = std::conditional_t<kOfPanels, PanelTile<kWidth>, SharedTile<kWidth>>;
  static constexpr int kStages = 2, kTiles = kOwn / kBlock;  // tiles of 16 own rows, for each warp
  static constexpr std::uint32_t kFront = 3072;              // arrivals and row statistics
  static constexpr std::uint32_t kOwnBytes = Tile::bytes(kOwn);
  static constexpr std::uint32_t kTileBytes = Tile::bytes(kBlock);
  static constexpr int kBytes = static_cast<int>(kFront + 2 * kOwnBytes + 2 * kStages * kTileBytes);

 protected:
  using Accumulator = float[kTiles][kWidth / 8][4];

  __device__ BackwardTiles(const Call& call, const PieceView& piece, const Item& item, std::int32_t head, char* memory)
      : call_(call),
        piece_(piece),
        list_(kByColumns ? piece.columns[kOwn / kBlock - 1] : piece.rows[kOwn / kBlock - 1]),
        item_(item),
        head_(head),
        kv_head_(kByColumns ? head : call.kv_head_of(head)),
        n_streamed_(kByColumns ? piece.nq : piece.nk),
        memory_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        arrivals_(reinterpret_cast<Arrival*>(memory)) {
    first_ = std::int64_t{item.tile} * kOwn;
    own_count_ = static_cast<std::int32_t>(min((kByColumns ? piece.nk : piece.nq) - first_, std::int64_t{kOwn}));
    b1_ = source_of<T>(streamed1(), piece, 0, !kByColumns);
    b2_ = source_of<T>(streamed2(), piece, 0, !kByColumns);
  }

  template <class A>
  __device__ __forceinline__ static void clear(A& acc) {
#pragma unroll
    for (auto& tile : acc)
#pragma unroll
      for (auto& fragment : tile)
#pragma unroll
        for (float& x : fragment) x = 0;
  }

  // Heads whose rows stream by.
  __device__ std::int32_t first_head() const { return kByColumns ? call_.first_head_of(head_) : head_; }
  __device__ std::int32_t heads() const { return kByColumns ? call_.first_head_of(head_ + 1) - first_head() : 1; }

  __device__ Tile own_tile(int i) const { return {memory_ + kFront + static_cast<std::uint32_t>(i) * kOwnBytes}; }
  __device__ Tile streamed_tile(int stage, int i) const {
    return {memory_ + kFront + 2 * kOwnBytes + static_cast<std::uint32_t>(2 * stage + i) * kTileBytes};
  }
  __device__ std::uint32_t terms_at(int stage) const {
    return memory_ + 1024 + static_cast<std::uint32_t>(stage) * kBlock * 8;
  }
  __device__ int warp_row() const { return warp() * 16 * kTiles; }

  __device__ void fetch_own() const {
    const In& a1 = kByColumns ? call_.k : call_.q;
    const In& a2 = kByColumns ? call_.v : call_.d_o;
    const Source<T> s1 = source_of<T>(a1, piece_, head_, kByColumns), s2 = source_of<T>(a2, piece_, head_, kByColumns);
    own_tile(0).template fetch<kOwn>(s1.data + first_ * s1.stride, s1.stride, own_count_, call_.d_k);
    own_tile(1).template fetch<kOwn>(s2.data + first_ * s2.stride, s2.stride, own_count_, call_.d_v);
  }

  __device__ void fetch(Walk& ahead, int stage) const {
    if (!ahead.done()) {
      const std::int64_t first = std::int64_t{ahead.block()} * kBlock;
      const int count = static_cast<int>(min(n_streamed_ - first, std::int64_t{kBlock}));
      const std::int32_t head = kByColumns ? ahead.head : kv_head_;
      const T* b1 = b1_.data + head * streamed1().head + first * b1_.stride;
      const T* b2 = b2_.data + head * streamed2().head + first * b2_.stride;
      streamed_tile(stage, 0).template fetch<kBlock>(b1, b1_.stride, count, call_.d_k);
      streamed_tile(stage, 1).template fetch<kBlock>(b2, b2_.stride, count, call_.d_v);
      if (kByColumns && call_.statistics != nullptr && threadIdx.x < kBlock) {
        const bool exists = static_cast<int>(threadIdx.x) < count;
        copy8(terms_at(stage) + threadIdx.x * 8, terms_of(head) + first + (exists ? threadIdx.x : 0), exists);
      }
      if (threadIdx.x == 0) arrivals_[stage] = {ahead.block(), ahead.head, {ahead.entry.mask[0], ahead.entry.mask[1]}};
      ahead.next();
    }
    commit_copies();
  }

  __device__ const RowStatistic<float>* terms_of(std::int32_t head) const {
    return static_cast<const RowStatistic<float>*>(call_.statistics) + head * call_.rows + piece_.first_row;
  }
  // Of the own rows; going by rows.
  __device__ void read_terms(RowStatistic<float> (&terms)[kTiles][2]) const {
    if (call_.statistics == nullptr) return;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = warp_row() + 16 * t + lane() / 4 + 8 * half;
        terms[t][half] = i < own_count_ ? terms_of(head_)[first_ + i] : Shares<float>::nothing();
      }
  }
  // Of the rows of a fragment's columns; going by columns.
  __device__ __forceinline__ void streamed_terms(int stage, int column, RowStatistic<float> (&r)[2]) const {
    std::uint32_t bits[4];
    load_shared(bits, terms_at(stage) + static_cast<std::uint32_t>(column + column_of(0)) * 8);
#pragma unroll
    for (int i = 0; i < 2; ++i) r[i] = {__uint_as_float(bits[2 * i]), __uint_as_float(bits[2 * i + 1])};
  }

  // Notes whether something that must not matter is not finite.
  __device__ __forceinline__ void look(const Arrival& now, int stage, bool always) {
    if (!always && now.mask[0] == Plan::kWhole && (kOwn == kBlock || now.mask[1] == Plan::kWhole)) return;
    strange_ |= streamed_tile(stage, 0).template is_strange_in<T>(kBlock);
    if constexpr (kByColumns) strange_ |= streamed_tile(stage, 1).template is_strange_in<T>(kBlock);
  }
  // The mask of this warp's rows.
  __device__ std::int32_t mask_of(const Arrival& now) const { return warp_row() < kBlock ? now.mask[0] : now.mask[1]; }

  // acc1 is dq or dk, acc2 is dv; after a barrier, since the own tiles' memory is used.
  template <class Second>
  __device__ void finish(Accumulator& acc1, const Second& acc2) const {
    if (item_.slot >= 0) {
      const PartialShape shape{kOwn, kWidth, kByColumns ? kWidth : 0};
      float* to = call_.partial + shape.offset(item_.slot, gridDim.y, head_);
      leave_sums<kWidth, kTiles>(to, shape.columns(), own_count_, acc1);
      if constexpr (kByColumns) leave_sums<kWidth, kTiles>(to + kWidth, shape.columns(), own_count_, acc2);
    } else {
      const float scale = static_cast<float>(call_.scale);
#pragma unroll
      for (auto& tile : acc1)
#pragma unroll
        for (auto& fragment : tile)
#pragma unroll
          for (float& x : fragment) x *= scale;
      store_own<T>(own_tile(0), target(kByColumns ? call_.dk : call_.dq, call_.d_k), acc1);
      if constexpr (kByColumns) store_own<T>(own_tile(1), target(call_.dv, call_.d_v), acc2);
    }
    report(call_, item_, strange_);
  }

  const Call& call_;
  const PieceView& piece_;
  const ListView& list_;
  Item item_;
  std::int32_t head_, kv_head_;  // by columns both that of the keys
  std::int64_t n_streamed_;
  Source<T> b1_, b2_;  // of head 0
  std::uint32_t memory_;
  Arrival* arrivals_;
  std::int64_t first_;
  std::int32_t own_count_;
  bool strange_ = false;

 private:
  __device__ const In& streamed1() const { return kByColumns ? call_.q : call_.k; }
  __device__ const In& streamed2() const { return kByColumns ? call_.d_o : call_.v; }
  __device__ RowTarget target(const Out& to, std::int32_t width) const {
    const std::int64_t row = kByColumns ? piece_.key_row(first_) : piece_.query_row(first_);
    return {to.data, offset_of(to, piece_.batch, row, head_), to.row * (kByColumns ? piece_.k_step : piece_.q_step),
            own_count_, width};
  }
};

}  // namespace fovea::tile::cuda
