#pragma once

#include "scan/cuda/mma_place.cuh"
#include "scan/cuda/rows.cuh"

namespace fovea::scan::cuda {

// Sums x^T y over a segment: of keys and values, or of queries and gradients; with a denominator its column as well.
template <int kD, bool kQueries, bool kDivides>
struct MmaSum {
  static constexpr int kStages = kD <= 64 ? 4 : 3;
  using Memory = MmaMemory<kD, 2, kStages, 0, 0, kDivides && kQueries>;

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    if (!kQueries && at.head % at.call.group() != 0) return;  // the heads of a group have the same keys
    const Memory memory;
    const bool back = kQueries && at.call.causal;
    const Powers powers = make_powers(at.call, at.kv_head, memory.table(), kD);
    const RowsView x = kQueries ? at.q() : at.k(), y = kQueries ? at.gradient() : at.v();
    const auto range = [&](std::int64_t row) { return kQueries ? at.queries(row) : Range{0, at.count(row)}; };
    RunningState<kD, kDivides> state;
    state.load(nullptr);
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, back);
          fetch_rows<kD>(memory.tile(stage, 0), x, row, range(row));
          fetch_rows<kD>(memory.tile(stage, 1), y, row, range(row));
          if constexpr (kQueries && kDivides) at.fetch_scales(memory.scales(stage), row);
        },
        [&](int c, int stage) { map_rows<kD>(memory.tile(stage, 0), at.call.map, range(at.row(c, back))); },
        [&](int c, int stage) {
          const SharedTile<kD> xs = memory.tile(stage, 0), ys = memory.tile(stage, 1);
          const int count = at.count(at.row(c, back));
          if constexpr (kQueries)
            state.add_queries(xs, ys, powers, count, back, memory.scales(stage));
          else
            state.add_keys(xs, ys, powers, count);
        });
    const std::int64_t index = mma.first_cut + blockIdx.y;
    state.save(mma.end + (kQueries ? mma.gradient_at(index, at.head) : mma.state_at(index, at.kv_head)));
  }
};

// Own rows over their denominators, which are said to whoever wants them. `row`: where the chunk begins.
template <int kD>
__device__ __forceinline__ void divide(float (&acc)[kD / 8][4], const MmaPlace<kD>& at, std::int64_t row, float upper,
                                       float lower) {
  const float d[2] = {denominator(at.call, upper), denominator(at.call, lower)};
  scale_rows(acc, d[0] == 0 ? 0.0f : 1 / d[0], d[1] == 0 ? 0.0f : 1 / d[1]);
  const Out& statistic = at.call.out_statistic;
  if (statistic.data == nullptr || lane() % 4 != 0) return;
  const Range queries = at.queries(row);
  float* const to = static_cast<float*>(statistic.data) +
                    offset_of(statistic, at.piece.batch, at.piece.q0 - at.piece.shift + row, 0) + at.head;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = warp() * 16 + lane() / 4 + 8 * half;
    if (own >= queries.begin && own < queries.end) to[own * statistic.row] = d[half];
  }
}

// o = f(q) S, and with kScan the triangle of the chunk, S running along. With a denominator, and for outputs in f32
// that are normalised later, S is a pair of bf16: what o is off by would weigh on dq, whose sums cancel by it.
template <int kD, bool kScan, bool kDivides>
struct MmaForward {
  static constexpr int kTiles = kScan ? 3 : 1, kStages = kD <= 64 && !kScan ? 4 : 2;
  static constexpr int kBuffers = kScan && kD <= 64 ? 2 : 1;
  static constexpr bool kRoom = kD <= 64 || !kScan;  // for a pair
  static constexpr int kStates = kRoom ? 2 : 1;      // of a buffer
  using Memory = MmaMemory<kD, kTiles, kStages, kBuffers * kStates, kDivides ? kBuffers : 0>;
  using State = RunningState<kD, kDivides>;

  __device__ static void put(const Memory& memory, const State& state, int buffer, bool pair) {
    state.put(memory.state(kStates * buffer), memory.column(buffer));
    if (pair) state.put_rest(memory.state(kStates * buffer + 1));
  }

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    const Powers powers = kScan ? make_powers(at.call, at.kv_head, memory.table(), kD) : Powers{nullptr};
    const int own = warp() * 16;
    const bool pair = kRoom && (kDivides || at.call.output_type == DType::f32);
    State state;
    state.load(at.start());
    put(memory, state, 0, pair);
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          fetch_rows<kD>(memory.tile(stage, 0), at.q(), row, at.queries(row));
          if constexpr (kScan) {
            fetch_rows<kD>(memory.tile(stage, 1), at.k(), row, {0, at.count(row)});
            fetch_rows<kD>(memory.tile(stage, 2), at.v(), row, {0, at.count(row)});
          }
        },
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          map_rows<kD>(memory.tile(stage, 0), at.call.map, at.queries(row));
          if constexpr (kScan) map_rows<kD>(memory.tile(stage, 1), at.call.map, {0, at.count(row)});
        },
        [&](int c, int stage) {
          const SharedTile<kD> q = memory.tile(stage, 0), k = memory.tile(stage, kScan ? 1 : 0),
                               v = memory.tile(stage, kScan ? 2 : 0), s = memory.state(kStates * (c % kBuffers));
          const std::int64_t row = at.row(c, false);
          float acc[kD / 8][4], sums[1][4];  // of the denominator
          clear(acc), clear(sums);
#pragma unroll
          for (int step = 0; step < kD / 16; ++step) {
            std::uint32_t a[4];
            q.own(a, own, step);
            add_along<kD>(acc, a, s, 16 * step);
            if (pair) add_along<kD>(acc, a, memory.state(kStates * (c % kBuffers) + 1), 16 * step);
            if constexpr (kDivides) add_column<kD>(sums, a, memory.column(c % kBuffers), step);
          }
          if constexpr (kScan) {
            if (powers.any()) {
              const float upper = powers[own + lane() / 4 + 1], lower = powers[own + lane() / 4 + 9];
              scale_rows(acc, upper, lower), scale_rows(sums, upper, lower);
            }
            for (int block = 0; block <= own; block += 16) {
              float scores[2][4];
              std::uint32_t a[4];
              clear(scores);
              score_block<kD>(scores, q, own, k, block);
              powers.weigh(scores, own, block, true);
              pack_block(a, scores);
              add_along<kD>(acc, a, v, block);
              if constexpr (kDivides) add_ones(sums, a);
            }
          }
          if constexpr (kDivides) divide<kD>(acc, at, row, sums[0][0], sums[0][2]);
          at.store_outputs(q, acc, row);
          if constexpr (kScan) {
            state.add_keys(k, v, powers, at.count(row));
            if constexpr (kBuffers == 1) __syncthreads();
            put(memory, state, (c + 1) % kBuffers, pair);
          }
        });
    if (kScan)
      if (float* end = at.end(false)) state.save(end);
  }
};

// dq = (dy S^T + (dy v^T) f(k)) f'(q). S and dy are pairs of bf16: the sums cancel where v has a mean. Where S stands,
// its registers sum up D = f(q)^T dy instead, while the rows are at hand. With a denominator dy is d_o with its pull,
// which cancels S's column.
template <int kD, bool kScan, bool kDivides>
struct MmaQueries {
  // Tiles of q, dy, its rest (or room for dq), k, v.
  static constexpr int kKeys = kScan && kDivides ? 2 : 3, kTiles = kScan ? kKeys + 2 : 3;
  static constexpr int kStages = kD <= 64 ? 2 : 1, kBuffers = kScan && kD <= 64 ? 2 : 1;
  using Memory = MmaMemory<kD, kTiles, kStages, 2 * kBuffers, kDivides ? kBuffers : 0, kDivides>;
  using State = RunningState<kD, kDivides>;

  __device__ static void put(const Memory& memory, const State& state, int buffer) {
    state.put(memory.state(2 * buffer), memory.column(buffer));
    state.put_rest(memory.state(2 * buffer + 1));
  }
  __device__ static void fetch(const MmaPlace<kD>& at, const Memory& memory, int c, int stage) {
    const std::int64_t row = at.row(c, false);
    const Range queries = at.queries(row);
    fetch_rows<kD>(memory.tile(stage, 0), at.q(), row, queries);
    fetch_rows<kD>(memory.tile(stage, 1), at.gradient(), row, queries);
    if constexpr (kDivides)
      at.fetch_scales(memory.scales(stage), row);
    else if (at.mma.gradient_rest != nullptr)
      fetch_rows<kD>(memory.tile(stage, 2), at.dense(at.mma.gradient_rest), row, queries);
    if constexpr (kScan) {
      fetch_rows<kD>(memory.tile(stage, kKeys), at.k(), row, {0, at.count(row)});
      fetch_rows<kD>(memory.tile(stage, kKeys + 1), at.v(), row, {0, at.count(row)});
    }
  }
  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    const Powers powers = kScan ? make_powers(at.call, at.kv_head, memory.table(), kD) : Powers{nullptr};
    const bool has_rest = !kDivides && mma.gradient_rest != nullptr;
    State state;
    state.load(at.start());
    put(memory, state, 0);
    if constexpr (!kScan) state.load(nullptr);
    each_chunk<kStages>(
        at.chunks, [&](int c, int stage) { fetch(at, memory, c, stage); },
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          map_rows<kD>(memory.tile(stage, 0), at.call.map, at.queries(row));
          if constexpr (kScan) map_rows<kD>(memory.tile(stage, kKeys), at.call.map, {0, at.count(row)});
        },
        [&](int c, int stage) {
          const SharedTile<kD> q = memory.tile(stage, 0), g = memory.tile(stage, 1);
          const SharedTile<kD> room = kScan && kDivides ? g : memory.tile(stage, 2);
          const std::int64_t row = at.row(c, false);
          float acc[kD / 8][4];
          vjp(acc, memory, powers, c, stage, has_rest);
          if constexpr (kScan) {
            state.add_keys(memory.tile(stage, kKeys), memory.tile(stage, kKeys + 1), powers, at.count(row));
            if constexpr (kBuffers == 1) __syncthreads();
            put(memory, state, (c + 1) % kBuffers);
          }
          vjp_slopes<kD>(acc, q, at.call.map);
          store_rows<kD>(room, acc, at.to(at.call.dq, row, true), at.call.dq.row, at.queries(row));
          if constexpr (!kScan) state.add_queries(q, g, powers, at.count(row), false, memory.scales(stage));
        });
    if constexpr (!kScan) state.save(mma.end + mma.gradient_at(mma.first_cut + blockIdx.y, at.head));
  }

  // The gradient of own features.
  __device__ __forceinline__ static void vjp(float (&acc)[kD / 8][4], const Memory& memory, const Powers& powers, int c,
                                             int stage, bool has_rest) {
    const SharedTile<kD> g = memory.tile(stage, 1), rest = memory.tile(stage, kKeys == 3 ? 2 : 1);
    const SharedTile<kD> s = memory.state(c % kBuffers * 2), s_rest = memory.state(c % kBuffers * 2 + 1);
    const int own = warp() * 16;
    float2 upper{1, 0}, lower{1, 0};  // scales of own rows
    if constexpr (kDivides) {
      const RowScales<kD> scales = memory.scales(stage);
      upper = scales[own + lane() / 4], lower = scales[own + lane() / 4 + 8];
    }
    clear(acc);
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t a[4];
      g.own(a, own, step);
      add_across<kD>(acc, a, s_rest, step);
      add_across<kD>(acc, a, s, step);
      if (has_rest) {
        rest.own(a, own, step);
        add_across<kD>(acc, a, s, step);
      }
    }
    if constexpr (kDivides) add_outer<kD>(acc, upper.y, lower.y, memory.column(c % kBuffers));
    if constexpr (kScan) {
      const SharedTile<kD> k = memory.tile(stage, kKeys), v = memory.tile(stage, kKeys + 1);
      if (powers.any()) scale_rows(acc, powers[own + lane() / 4 + 1], powers[own + lane() / 4 + 9]);
      for (int block = 0; block <= own; block += 16) {
        float scores[2][4];
        std::uint32_t a[4];
        clear(scores);
        score_block<kD>(scores, g, own, v, block);
        if (has_rest) score_block<kD>(scores, rest, own, v, block);
        if constexpr (kDivides) add_rows(scores, upper.y, lower.y);
        powers.weigh(scores, own, block, true);
        pack_block(a, scores);
        add_along<kD>(acc, a, k, block);
        keep_rest(scores);
        pack_block(a, scores);
        add_along<kD>(acc, a, k, block);
      }
    }
    if constexpr (kDivides) scale_rows(acc, upper.x, lower.x);
  }
};

// dk = (v D^T + (v dy^T) f(q)) f'(k),   dv = f(k) D + (f(k) f(q)^T) dy, with D running from the right to the left.
// With a denominator dk cancels where v has a mean, as dq does: D is a pair of bf16 then.
template <int kD, bool kScan, bool kDivides>
struct MmaKeys {
  static constexpr int kTiles = kScan ? 4 : 2, kStages = kD <= 64 ? 2 : 1, kBuffers = kScan && kD <= 64 ? 2 : 1;
  static constexpr int kStates = kDivides ? 2 : 1;  // of a buffer
  using Memory = MmaMemory<kD, kTiles, kStages, kBuffers * kStates, kDivides ? kBuffers : 0, kDivides>;
  using State = RunningState<kD, kDivides>;

  __device__ static void put(const Memory& memory, const State& state, int buffer) {
    state.put(memory.state(kStates * buffer), memory.column(buffer));
    if constexpr (kDivides) state.put_rest(memory.state(kStates * buffer + 1));
  }
  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    if (!kScan && at.head % at.call.group() != 0) return;  // the heads of a group have one sum
    const Memory memory;
    const Powers powers = kScan ? make_powers(at.call, at.kv_head, memory.table(), kD) : Powers{nullptr};
    State state;
    state.load(kScan ? at.gradient_start() : at.start());
    put(memory, state, 0);
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, kScan);
          fetch_rows<kD>(memory.tile(stage, 0), at.k(), row, {0, at.count(row)});
          fetch_rows<kD>(memory.tile(stage, 1), at.v(), row, {0, at.count(row)});
          if constexpr (kScan) {
            fetch_rows<kD>(memory.tile(stage, 2), at.q(), row, at.queries(row));
            fetch_rows<kD>(memory.tile(stage, 3), at.gradient(), row, at.queries(row));
            if constexpr (kDivides) at.fetch_scales(memory.scales(stage), row);
          }
        },
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, kScan);
          map_rows<kD>(memory.tile(stage, 0), at.call.map, {0, at.count(row)});
          if constexpr (kScan) map_rows<kD>(memory.tile(stage, 2), at.call.map, at.queries(row));
        },
        [&](int c, int stage) {
          vjp<true>(at, memory, powers, c, stage);
          vjp<false>(at, memory, powers, c, stage);
          if constexpr (kScan) {
            state.add_queries(memory.tile(stage, 2), memory.tile(stage, 3), powers, at.count(at.row(c, true)), true,
                              memory.scales(stage));
            if constexpr (kBuffers == 1) __syncthreads();
            put(memory, state, (c + 1) % kBuffers);
          }
        });
    if (kScan)
      if (float* end = at.gradient_end(true)) state.save(end);
  }

  // dk, which leaves its rows through those of v, and then dv.
  template <bool kOfKeys>
  __device__ __forceinline__ static void vjp(const MmaPlace<kD>& at, const Memory& memory, const Powers& powers, int c,
                                             int stage) {
    const SharedTile<kD> k = memory.tile(stage, 0), v = memory.tile(stage, 1);
    const int buffer = c % kBuffers;
    const SharedTile<kD> d = memory.state(kStates * buffer);
    const std::int64_t row = at.row(c, kScan);
    const int own = warp() * 16, count = at.count(row);
    float acc[kD / 8][4];
    clear(acc);
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t a[4];
      (kOfKeys ? v : k).own(a, own, step);
      if constexpr (kOfKeys && kDivides) add_across<kD>(acc, a, memory.state(kStates * buffer + 1), step);
      if constexpr (kOfKeys)
        add_across<kD>(acc, a, d, step);
      else
        add_along<kD>(acc, a, d, 16 * step);
    }
    if constexpr (kOfKeys && kDivides) add_outer<kD>(acc, 1, 1, memory.column(buffer));
    if constexpr (kScan) {
      const SharedTile<kD> q = memory.tile(stage, 2), g = memory.tile(stage, 3);
      const int left = count - 1 - own - lane() / 4;
      if (powers.any()) scale_rows(acc, powers[max(left, 0)], powers[max(left - 8, 0)]);
      for (int block = own; block < count; block += 16) {
        float scores[2][4];
        std::uint32_t a[4];
        clear(scores);
        score_block<kD>(scores, kOfKeys ? v : k, own, kOfKeys ? g : q, block);
        if constexpr (kDivides) memory.scales(stage).scale_columns(scores, block, kOfKeys);
        powers.weigh(scores, own, block, false);
        pack_block(a, scores);
        add_along<kD>(acc, a, kOfKeys ? q : g, block);
      }
    }
    if constexpr (kOfKeys) vjp_slopes<kD>(acc, k, at.call.map);
    const OutRows out = at.key_gradient(kOfKeys, row);
    store_rows<kD>(v, acc, out.data, out.stride, {0, count});
  }
};

}  // namespace fovea::scan::cuda
