#pragma once

#include "tile/cuda/output_rows.cuh"

namespace fovea::tile::cuda {

// o = weights(q k^T) v for own tiles of 64 kTiles queries: four warps of 16 kTiles rows each, and key blocks of 64 that
// pass through a ring of shared memory. With two tiles every fragment of k and v that is read serves two products.
// kGeneral: any weight, bias, ALiBi, dropout; else softmax with a positive scale.
template <class T, int kWidth, int kTiles, bool kGeneral>
class MmaForward {
 public:
  static constexpr int kOwn = 64 * kTiles, kStages = kWidth <= 64 && kTiles == 2 ? 3 : 2;
  // Keys that are weighed at a time: what registers hold beside the outputs.
  static constexpr int kPart = kWidth <= 64 && !kGeneral ? 64 : 32;
  static constexpr bool kKeepsQueries = kWidth <= 64;  // in registers
  static constexpr int kResident = kGeneral || kWidth > 128 ? 1 : (kWidth <= 64 && kTiles == 1 ? 4 : 2);
  static constexpr int kTileBytes = SharedTile<kWidth>::bytes(kBlock);
  static constexpr int kBytes = SharedTile<kWidth>::bytes(kOwn) + 2 * kStages * kTileBytes + kStages * 16;

  __device__ MmaForward(const Call& call, const PieceView& piece, const Item& item, std::int32_t head, char* memory)
      : call_(call),
        piece_(piece),
        list_(piece.rows[kTiles - 1]),
        item_(item),
        head_(head),
        nk_(piece.nk),
        memory_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        arrivals_(reinterpret_cast<Arrival*>(memory + kBytes - kStages * 16)),
        q_{memory_} {
    keys_ = source_of<T>(call.k, piece, call.kv_head_of(head), true);
    values_ = source_of<T>(call.v, piece, call.kv_head_of(head), true);
    first_ = std::int64_t{item.tile} * kOwn;
  }

  __device__ void run() {
    const std::int64_t left = piece_.nq - first_;
    const Source<T> q = source_of<T>(call_.q, piece_, head_, false);
    q_.template fetch<kOwn>(q.data + first_ * q.stride, q.stride, static_cast<int>(min(left, std::int64_t{kOwn})),
                            call_.d_k);
    Walk ahead(list_, item_, head_, 1);
    for (int s = 0; s < kStages - 1; ++s) fetch(ahead, s);
    int stage = 0;
    for (std::int32_t i = 0; i < item_.blocks; ++i, stage = stage + 1 == kStages ? 0 : stage + 1) {
      await_copies<kStages - 2>();
      __syncthreads();
      if constexpr (kKeepsQueries)
        if (i == 0) keep_queries();
      const Arrival now = arrivals_[stage];
      fetch(ahead, stage == 0 ? kStages - 1 : stage - 1);
      visit(now, stage);
    }
    await_copies<0>();
    __syncthreads();
    item_.slot < 0 ? store() : leave();
    report(call_, item_, strange_);
  }

 private:
  using Scores = float[kTiles][kPart / 8][4];

  __device__ SharedTile<kWidth> key_tile(int stage) const {
    return {memory_ + SharedTile<kWidth>::bytes(kOwn) + static_cast<std::uint32_t>(2 * stage) * kTileBytes};
  }
  __device__ SharedTile<kWidth> value_tile(int stage) const { return {key_tile(stage).base + kTileBytes}; }

  // Every call commits, so that groups can be counted.
  __device__ void fetch(Walk& ahead, int stage) {
    if (!ahead.done()) {
      const std::int64_t first = std::int64_t{ahead.block()} * kBlock;
      const int count = static_cast<int>(min(nk_ - first, std::int64_t{kBlock}));
      key_tile(stage).template fetch<kBlock>(keys_.data + first * keys_.stride, keys_.stride, count, call_.d_k);
      value_tile(stage).template fetch<kBlock>(values_.data + first * values_.stride, values_.stride, count, call_.d_v);
      if (threadIdx.x == 0) arrivals_[stage] = {ahead.block(), head_, {ahead.entry.mask[0], ahead.entry.mask[1]}};
      ahead.next();
    }
    commit_copies();
  }

  __device__ __forceinline__ void keep_queries() {
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step)
#pragma unroll
      for (int t = 0; t < kTiles; ++t) q_.own(kept_[step][t], warp_row() + 16 * t, step);
  }

  __device__ int warp_row() const { return warp() * 16 * kTiles; }

  __device__ __forceinline__ void visit(const Arrival& now, int stage) {
    const bool hides = (kGeneral && call_.bias.data != nullptr) || now.mask[0] != Plan::kWhole ||
                       (kTiles == 2 && now.mask[1] != Plan::kWhole);
    if (hides) strange_ |= value_tile(stage).template is_strange_in<T>(kBlock);
    const std::int32_t mask = kTiles == 2 && warp() >= 2 ? now.mask[1] : now.mask[0];
    if (mask == ListView::kNone) return;
    const std::int64_t first = std::int64_t{now.block} * kBlock;
#pragma unroll
    for (int row = 0; row < kBlock; row += kPart) {
      Scores s;
      score(key_tile(stage), row, s);
#pragma unroll
      for (int part = row / 32; part < (row + kPart) / 32; ++part) {
        const FragmentMask<kTiles> keeps(list_, mask, warp_row() % kBlock, part, nk_ - first);
        hide(keeps, part * 32 - row, s);
      }
      if constexpr (kGeneral)
        weigh_any(first + row, s);
      else
        rows_.weigh(s, call_.score_scale);
      gather(value_tile(stage), row, s);
    }
  }

  // s = q k^T for keys [row, row + kPart)
  __device__ __forceinline__ void score(const SharedTile<kWidth>& keys, int row, Scores& s) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[t][n][e] = 0;
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      std::uint32_t a[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        if constexpr (kKeepsQueries) {
#pragma unroll
          for (int i = 0; i < 4; ++i) a[t][i] = kept_[step][t][i];
        } else {
          q_.own(a[t], warp_row() + 16 * t, step);
        }
      }
#pragma unroll
      for (int pair = 0; pair < kPart / 16; ++pair) {
        std::uint32_t b[4];
        keys.across(b, row + 16 * pair, step);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          multiply_add<T>(s[t][2 * pair], a[t], b[0], b[1]);
          multiply_add<T>(s[t][2 * pair + 1], a[t], b[2], b[3]);
        }
      }
    }
  }

  // Products become weights of any kind; `key` is that of the first column. Scores are -infinity where no pair is kept.
  __device__ __forceinline__ void weigh_any(std::int64_t key, Scores& s) {
    call_.is_shaped ? weigh_shaped(key, s) : weigh_each(key, s);
    if (!call_.has_dropout) return;
    const FragmentDropper drop(call_, piece_, head_);
    each_fragment(key, s, [&](int, Pair first, float(&w)[4]) {
      float factors[4];
      drop.draw<false>(first, factors);
#pragma unroll
      for (int e = 0; e < 4; ++e) w[e] = w[e] == 0 ? 0.0f : w[e] * factors[e];
    });
  }
  __device__ __forceinline__ void weigh_shaped(std::int64_t key, Scores& s) {
    const FragmentBias bias(call_, piece_, head_);
    each_fragment(key, s, [&](int, Pair first, float(&x)[4]) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = first.query + row_of(e) < piece_.nq ? x[e] : -math::kInfinity<float>;
      bias.apply<false>(first, x);
    });
    rows_.weigh(s, 1.0f);
  }
  __device__ __forceinline__ void weigh_each(std::int64_t key, Scores& s) {
    const FragmentWeights weights(call_);
    const Modifier<float> modify(call_, piece_, head_);
    each_fragment(key, s, [&](int, Pair first, float(&x)[4]) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Pair at = FragmentDropper::at<false>(first, e);
        const bool kept = x[e] != -math::kInfinity<float> && at.query < piece_.nq;
        x[e] = kept ? modify(x[e], at) : -math::kInfinity<float>;
      }
    });
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
      if (weights.has_top) raise_any(t, s[t]);
    each_fragment(key, s, [&](int t, Pair, float(&w)[4]) {
#pragma unroll
      for (int e = 0; e < 4; ++e) w[e] = weights.weigh(w[e], rows_.top[t][e / 2], rows_.sum[t][e / 2]);
    });
  }
  // f(tile, first pair, fragment)
  template <class F>
  __device__ __forceinline__ void each_fragment(std::int64_t key, Scores& s, const F& f) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) f(t, Pair{first_ + warp_row() + 16 * t, key + 8 * n}, s[t][n]);
  }
  __device__ __forceinline__ void raise_any(int t, const float (&s)[kPart / 8][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = rows_.top[t][half];
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      rows_.raise(t, half, quad_max(most));
    }
  }

  // o += weights v for keys [row, row + kPart)
  __device__ __forceinline__ void gather(const SharedTile<kWidth>& values, int row, const Scores& s) {
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
        values.along(b, row + 16 * step, pair);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          multiply_add<T>(rows_.o[t][2 * pair], a[t], b[0], b[1]);
          multiply_add<T>(rows_.o[t][2 * pair + 1], a[t], b[2], b[3]);
        }
      }
    }
  }

  __device__ void store() {
    if (!kGeneral || has_statistic(call_.weight)) rows_.close(call_, piece_, head_, first_ + warp_row());
    rows_.store(call_, {piece_, head_, first_, kOwn}, q_);
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
  SharedTile<kWidth> q_;
  std::int64_t first_;
  std::uint32_t kept_[kKeepsQueries ? kWidth / 16 : 1][kTiles][4];
  OutputRows<T, kWidth, kTiles> rows_;
  bool strange_ = false;
};

// Grid: (items, heads).
template <class T, int kWidth, int kTiles, bool kGeneral>
__global__ void __launch_bounds__(kMmaThreads, (MmaForward<T, kWidth, kTiles, kGeneral>::kResident))
    mma_forward_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(1024) char memory[];
  const Item item = call.items[blockIdx.x];
  const PieceView& piece = call.pieces[item.piece];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  if (piece.kv_head >= 0 && piece.kv_head != call.kv_head_of(head)) return report(call, item, false);
  MmaForward<T, kWidth, kTiles, kGeneral>(call, piece, item, head, memory).run();
}

}  // namespace fovea::tile::cuda
