#pragma once

#include "tile/cuda/mma_walk.cuh"
#include "tile/cuda/simt_launch.h"

namespace fovea::tile::cuda {

// The row kernel (dq) and the column kernel (dk, dv) of backward, as simt.cuh has them: own a1, a2; streamed b1, b2;
// S = a1 b1^T, dP = a2 b2^T, then dS b1 and, by columns, P b2. 32 streamed rows at a time, which is what registers
// hold.
template <class T, int kWidth, int kTiles, bool kGeneral, Role kRole>
class MmaBackward {
 public:
  static constexpr bool kByColumns = kRole == Role::column;
  static constexpr int kOwn = 64 * kTiles, kStages = 2, kPart = 32;
  static constexpr bool kKeepsOwn = !kByColumns && kWidth <= 64;  // in registers
  static constexpr int kResident = kGeneral ? 1 : (kWidth <= 64 && kTiles == 1 ? 4 : 2);
  static constexpr int kOwnBytes = SharedTile<kWidth>::bytes(kOwn), kTileBytes = SharedTile<kWidth>::bytes(kBlock);
  static constexpr int kTermBytes = kByColumns ? kBlock * 8 : 0;
  static constexpr int kStageBytes = 2 * kTileBytes + kTermBytes;
  static constexpr int kBytes = 2 * kOwnBytes + kStages * kStageBytes + kStages * 16;

  __device__ MmaBackward(const Call& call, const PieceView& piece, const Item& item, std::int32_t head, char* memory)
      : call_(call),
        piece_(piece),
        list_(kByColumns ? piece.columns[kTiles - 1] : piece.rows[kTiles - 1]),
        item_(item),
        head_(head),
        n_streamed_(kByColumns ? piece.nq : piece.nk),
        memory_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        arrivals_(reinterpret_cast<Arrival*>(memory + kBytes - kStages * 16)) {
    first_ = std::int64_t{item.tile} * kOwn;
    own_count_ = static_cast<std::int32_t>(min((kByColumns ? piece.nk : piece.nq) - first_, std::int64_t{kOwn}));
    b1_ = source_of<T>(streamed1(), piece, 0, !kByColumns);
    b2_ = source_of<T>(streamed2(), piece, 0, !kByColumns);
    clear(acc1_);
    if constexpr (kByColumns) clear(acc2_);
  }

  __device__ void run() {
    fetch_own();
    const std::int32_t first = kByColumns ? call_.first_head_of(head_) : head_;
    const std::int32_t heads = kByColumns ? call_.first_head_of(head_ + 1) - first : 1;
    if constexpr (!kByColumns) read_terms();
    Walk ahead(list_, item_, first, heads);
    fetch(ahead, 0);
    for (std::int32_t i = 0, stage = 0; i < item_.blocks * heads; ++i, stage ^= 1) {
      await_copies<0>();
      __syncthreads();
      if constexpr (kKeepsOwn)
        if (i == 0) keep_own();
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
  using Accumulator = float[kTiles][kWidth / 8][4];
  using Scores = float[kTiles][kPart / 8][4];

  template <class A>
  __device__ __forceinline__ static void clear(A& acc) {
#pragma unroll
    for (auto& tile : acc)
#pragma unroll
      for (auto& fragment : tile)
#pragma unroll
        for (float& x : fragment) x = 0;
  }

  __device__ const In& streamed1() const { return kByColumns ? call_.q : call_.k; }
  __device__ const In& streamed2() const { return kByColumns ? call_.d_o : call_.v; }
  __device__ SharedTile<kWidth> own_tile(int i) const { return {memory_ + static_cast<std::uint32_t>(i * kOwnBytes)}; }
  __device__ SharedTile<kWidth> streamed_tile(int stage, int i) const {
    return {memory_ + static_cast<std::uint32_t>(2 * kOwnBytes + stage * kStageBytes + i * kTileBytes)};
  }
  __device__ std::uint32_t terms_at(int stage) const { return streamed_tile(stage, 2).base; }
  __device__ int warp_row() const { return warp() * 16 * kTiles; }

  __device__ void fetch_own() {
    const In& a1 = kByColumns ? call_.k : call_.q;
    const In& a2 = kByColumns ? call_.v : call_.d_o;
    const Source<T> s1 = source_of<T>(a1, piece_, head_, kByColumns), s2 = source_of<T>(a2, piece_, head_, kByColumns);
    own_tile(0).fetch(s1.data + first_ * s1.stride, s1.stride, kOwn, own_count_, call_.d_k);
    own_tile(1).fetch(s2.data + first_ * s2.stride, s2.stride, kOwn, own_count_, call_.d_v);
  }

  __device__ void fetch(Walk& ahead, int stage) {
    if (!ahead.done()) {
      const std::int64_t first = std::int64_t{ahead.block()} * kBlock;
      const int count = static_cast<int>(min(n_streamed_ - first, std::int64_t{kBlock}));
      const std::int32_t head = kByColumns ? ahead.head : call_.kv_head_of(head_);
      const T* b1 = b1_.data + head * streamed1().head + first * b1_.stride;
      const T* b2 = b2_.data + head * streamed2().head + first * b2_.stride;
      streamed_tile(stage, 0).fetch(b1, b1_.stride, kBlock, count, call_.d_k);
      streamed_tile(stage, 1).fetch(b2, b2_.stride, kBlock, count, call_.d_v);
      if (kByColumns && call_.statistics != nullptr && threadIdx.x < kBlock) {
        const bool exists = static_cast<int>(threadIdx.x) < count;
        const auto* terms = terms_of(head) + first + (exists ? threadIdx.x : 0);
        copy8(terms_at(stage) + threadIdx.x * 8, terms, exists);
      }
      if (threadIdx.x == 0) arrivals_[stage] = {ahead.block(), ahead.head, {ahead.entry.mask[0], ahead.entry.mask[1]}};
      ahead.next();
    }
    commit_copies();
  }
  __device__ const RowStatistic<float>* terms_of(std::int32_t head) const {
    return static_cast<const RowStatistic<float>*>(call_.statistics) + head * call_.rows + piece_.first_row;
  }
  __device__ void read_terms() {
    if (call_.statistics == nullptr) return;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = warp_row() + 16 * t + lane() / 4 + 8 * half;
        terms_[t][half] = i < own_count_ ? terms_of(head_)[first_ + i] : Shares<float>::nothing();
      }
  }

  __device__ __forceinline__ void keep_own() {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step)
#pragma unroll
        for (int t = 0; t < kTiles; ++t) own_tile(i).own(kept_[i][step][t], warp_row() + 16 * t, step);
  }

  __device__ __forceinline__ void visit(const Arrival& now, int stage) {
    const bool hides = (kGeneral && call_.bias.data != nullptr) || now.mask[0] != Plan::kWhole ||
                       (kTiles == 2 && now.mask[1] != Plan::kWhole);
    if (hides) {
      strange_ |= streamed_tile(stage, 0).template is_strange_in<T>(kBlock);
      if constexpr (kByColumns) strange_ |= streamed_tile(stage, 1).template is_strange_in<T>(kBlock);
    }
    const std::int32_t mask = kTiles == 2 && warp() >= 2 ? now.mask[1] : now.mask[0];
    if (mask == ListView::kNone) return;
    const std::int64_t first = std::int64_t{now.block} * kBlock;
#pragma unroll 1
    for (int part = 0; part < kBlock / kPart; ++part) {
      const FragmentMask<kTiles> keeps(list_, mask, warp_row() % kBlock, part, n_streamed_ - first);
      Scores s, g;
      multiply<0>(streamed_tile(stage, 0), part * kPart, s);
      multiply<1>(streamed_tile(stage, 1), part * kPart, g);
      if constexpr (kGeneral)
        pull_any(now, part, keeps, s, g);
      else
        pull_softmax(stage, part, keeps, s, g);
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

  // The statistics of the rows of a fragment's columns.
  __device__ __forceinline__ void streamed_terms(int stage, int column, RowStatistic<float> (&r)[2]) const {
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(r[0].reopened), "=f"(r[0].delta), "=f"(r[1].reopened), "=f"(r[1].delta)
                 : "r"(terms_at(stage) + static_cast<std::uint32_t>(column + column_of(0)) * 8));
  }

  // Scores become weights, gradients of weights those of scores.
  __device__ __forceinline__ void pull_softmax(int stage, int part, const FragmentMask<kTiles>& keeps, Scores& s,
                                               Scores& g) const {
    const float scale = static_cast<float>(call_.scale * call_.unit);
#pragma unroll
    for (int n = 0; n < kPart / 8; ++n) {
      RowStatistic<float> across[2];
      if constexpr (kByColumns) streamed_terms(stage, part * kPart + 8 * n, across);
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

  __device__ __forceinline__ void pull_any(const Arrival& now, int part, const FragmentMask<kTiles>& keeps, Scores& s,
                                           Scores& g) const {
    const FragmentWeights weights(call_);
    const Modifier<float> modify(call_, piece_, now.head);
    const Dropper<float> drop(call_, piece_, now.head);
    const std::int64_t streamed = std::int64_t{now.block} * kBlock + part * kPart;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = warp_row() + 16 * t + row_of(e);
          const std::int64_t own = first_ + i, other = streamed + 8 * n + column_of(e);
          const Pair at = kByColumns ? Pair{other, own} : Pair{own, other};
          const bool kept = (keeps.is_whole || keeps.keeps(t, 8 * n, e)) && i < own_count_;
          const float score = kept ? modify(s[t][n][e], at) : -math::kInfinity<float>;
          const float factor = call_.has_dropout && kept ? drop(at) : 1.0f;
          RowStatistic<float> row = Shares<float>::nothing();
          if (kept && call_.statistics != nullptr) row = kByColumns ? terms_of(now.head)[other] : terms_[t][e / 2];
          const Weighed<float> w = weights.pull(score, g[t][n][e] * factor, row);
          const bool counts = score != -math::kInfinity<float>;
          g[t][n][e] = counts ? w.gradient : 0.0f;
          s[t][n][e] = counts ? w.weight * factor : 0.0f;
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

  __device__ void store() {
    const float scale = static_cast<float>(call_.scale);
#pragma unroll
    for (auto& tile : acc1_)
#pragma unroll
      for (auto& fragment : tile)
#pragma unroll
        for (float& x : fragment) x *= scale;
    const std::int64_t row = kByColumns ? piece_.key_row(first_) : piece_.query_row(first_);
    const std::int64_t step = kByColumns ? piece_.k_step : piece_.q_step;
    const Out& to = kByColumns ? call_.dk : call_.dq;
    store_own<T, kWidth, kTiles>(
        own_tile(0), {to.data, offset_of(to, piece_.batch, row, head_), to.row * step, own_count_, call_.d_k}, acc1_);
    if constexpr (kByColumns)
      store_own<T, kWidth, kTiles>(
          own_tile(1),
          {call_.dv.data, offset_of(call_.dv, piece_.batch, row, head_), call_.dv.row * step, own_count_, call_.d_v},
          acc2_);
  }

  __device__ void leave() const {
    const PartialShape shape{kOwn, kWidth, kByColumns ? kWidth : 0};
    float* to = call_.partial + shape.offset(item_.slot, gridDim.y, head_);
    leave_sums<kWidth, kTiles>(to, shape.columns(), own_count_, acc1_);
    if constexpr (kByColumns) leave_sums<kWidth, kTiles>(to + kWidth, shape.columns(), own_count_, acc2_);
  }

  const Call& call_;
  const PieceView& piece_;
  const ListView& list_;
  Item item_;
  std::int32_t head_;  // by columns that of the keys
  std::int64_t n_streamed_;
  Source<T> b1_, b2_;  // of head 0
  std::uint32_t memory_;
  Arrival* arrivals_;
  std::uint32_t kept_[2][kKeepsOwn ? kWidth / 16 : 1][kTiles][4];
  std::int64_t first_;
  std::int32_t own_count_;
  Accumulator acc1_;
  std::conditional_t<kByColumns, Accumulator, char> acc2_;
  RowStatistic<float> terms_[kTiles][2];
  bool strange_ = false;
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
