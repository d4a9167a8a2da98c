#pragma once

#include "scan/cuda/chunk.cuh"

namespace fovea::scan::cuda {

// Where a block stands, and the chunks it goes through.
template <int kD>
struct MmaPlace {
  const MmaCall& mma;
  const Call& call;
  const PieceView& piece;
  Cut cut;
  std::int32_t head, kv_head, chunks;

  __device__ explicit MmaPlace(const MmaCall& mma)
      : mma(mma),
        call(mma.call),
        piece(call.pieces[mma.cuts[blockIdx.y].piece]),
        cut(mma.cuts[blockIdx.y]),
        head(static_cast<std::int32_t>(blockIdx.x)),
        kv_head(call.kv_head_of(head)),
        chunks(static_cast<std::int32_t>((cut.end - cut.begin + kD - 1) / kD)) {}

  __device__ std::int64_t row(int chunk, bool back) const {
    return cut.begin + std::int64_t{back ? chunks - 1 - chunk : chunk} * kD;
  }
  __device__ int count(std::int64_t row) const { return static_cast<int>(min(cut.end - row, std::int64_t{kD})); }
  // The rows of a chunk that have a query.
  __device__ Range queries(std::int64_t row) const {
    const std::int64_t without = piece.shift - row;
    return {static_cast<int>(min(max(without, std::int64_t{0}), std::int64_t{kD})), count(row)};
  }
  __device__ RowsView q() const { return rows_of(call.q, piece.batch, piece.q0 - piece.shift, head); }
  __device__ RowsView k() const { return rows_of(call.k, piece.batch, piece.k0, kv_head); }
  __device__ RowsView v() const { return rows_of(call.v, piece.batch, piece.k0, kv_head); }
  __device__ RowsView gradient() const {
    if (mma.gradient == nullptr) return rows_of(call.d_o, piece.batch, piece.q0 - piece.shift, head);
    return dense(mma.gradient);
  }
  __device__ RowsView dense(const void* data) const {
    const std::int64_t row = std::int64_t{call.heads} * kD;
    return {static_cast<const bfloat16*>(data) + (piece.first_q - piece.shift) * row + head * kD, row};
  }
  __device__ const float* start() const {
    if (mma.start == nullptr) return nullptr;
    return mma.start + mma.state_at(mma.start_by_cut ? mma.first_cut + blockIdx.y : cut.piece, kv_head);
  }
  // For the heads of a group one writes.
  __device__ float* end(bool back) const {
    const bool is_last = back ? cut.begin == 0 : cut.end == piece.nk;
    if (mma.end == nullptr || !is_last || head % call.group() != 0) return nullptr;
    return mma.end + mma.state_at(cut.piece, kv_head);
  }
  // Of a chunk's first row.
  __device__ bfloat16* to(const Out& out, std::int64_t row, bool of_queries) const {
    const std::int64_t first = of_queries ? piece.q0 - piece.shift : piece.k0;
    return static_cast<bfloat16*>(out.data) + offset_of(out, piece.batch, first + row, of_queries ? head : kv_head);
  }
};

extern __shared__ __align__(128) unsigned char shared_memory[];

// Tiles of stages, then those of states, then powers of the decay.
template <int kD, int kTiles, int kStages, int kStates>
struct MmaMemory {
  static constexpr int kTableAt = (kTiles * kStages + kStates) * ChunkShape<kD>::kBytes;
  static constexpr int kBytes = kTableAt + (kD + 1) * static_cast<int>(sizeof(float));

  std::uint32_t base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_memory));
  __device__ SharedTile<kD> tile(int stage, int i) const {
    return {base + static_cast<std::uint32_t>((stage * kTiles + i) * ChunkShape<kD>::kBytes)};
  }
  __device__ SharedTile<kD> state(int i) const { return tile(kStages, i); }
  __device__ float* table() const { return reinterpret_cast<float*>(shared_memory + kTableAt); }
};

// Chunk after chunk: fetch(chunk, stage) starts copies, arrive() sees a thread's own ones, body() everybody's.
template <int kStages, class Fetch, class Arrive, class Body>
__device__ __forceinline__ void each_chunk(int chunks, const Fetch& fetch, const Arrive& arrive, const Body& body) {
  constexpr int kAhead = kStages == 1 ? 1 : kStages - 1;
  for (int c = 0; c < kAhead; ++c) {
    if (c < chunks) fetch(c, c);
    commit_copies();
  }
  for (int c = 0; c < chunks; ++c) {
    await_copies<kAhead - 1>();
    arrive(c, c % kStages);
    __syncthreads();
    const int next = c + kAhead;
    if constexpr (kStages > 1) {
      if (next < chunks) fetch(next, next % kStages);
      commit_copies();
    }
    body(c, c % kStages);
    if constexpr (kStages == 1) {
      __syncthreads();
      if (next < chunks) fetch(next, 0);
      commit_copies();
    }
  }
}

// Sums x^T y over a segment: of keys and values, or of queries and gradients.
template <int kD, bool kQueries>
struct MmaSum {
  static constexpr int kStages = kD <= 64 ? 4 : 3;
  using Memory = MmaMemory<kD, 2, kStages, 0>;

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    if (at.head % at.call.group() != 0) return;  // the heads of a group have the same keys
    const Memory memory;
    const bool back = kQueries && at.call.causal;
    const Powers powers = make_powers(at.call, at.kv_head, memory.table(), kD);
    const RowsView x = kQueries ? at.q() : at.k(), y = kQueries ? at.gradient() : at.v();
    const auto range = [&](std::int64_t row) { return kQueries ? at.queries(row) : Range{0, at.count(row)}; };
    StateRows<kD> state;
    state.load(nullptr);
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, back);
          fetch_rows<kD>(memory.tile(stage, 0), x, row, range(row));
          fetch_rows<kD>(memory.tile(stage, 1), y, row, range(row));
        },
        [&](int c, int stage) { map_rows<kD>(memory.tile(stage, 0), at.call.map, range(at.row(c, back))); },
        [&](int c, int stage) {
          state.add(memory.tile(stage, 0), memory.tile(stage, 1), powers, at.count(at.row(c, back)), back);
        });
    state.save(mma.end + mma.state_at(mma.first_cut + blockIdx.y, at.kv_head));
  }
};

// o = f(q) S, and with kScan the triangle of the chunk, S running along.
template <int kD, bool kScan>
struct MmaForward {
  static constexpr int kTiles = kScan ? 3 : 1, kStages = kD <= 64 && !kScan ? 4 : 2;
  static constexpr int kStates = kScan && kD <= 64 ? 2 : 1;
  using Memory = MmaMemory<kD, kTiles, kStages, kStates>;

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    const Powers powers = kScan ? make_powers(at.call, at.kv_head, memory.table(), kD) : Powers{nullptr};
    const int own = warp() * 16;
    StateRows<kD> state;
    state.load(at.start());
    state.put(memory.state(0));
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
                               v = memory.tile(stage, kScan ? 2 : 0), s = memory.state(c % kStates);
          const std::int64_t row = at.row(c, false);
          float acc[kD / 8][4];
          clear(acc);
#pragma unroll
          for (int step = 0; step < kD / 16; ++step) {
            std::uint32_t a[4];
            q.own(a, own, step);
            add_along<kD>(acc, a, s, 16 * step);
          }
          if constexpr (kScan) {
            if (powers.any()) scale_rows(acc, powers[own + lane() / 4 + 1], powers[own + lane() / 4 + 9]);
            for (int block = 0; block <= own; block += 16) {
              float scores[2][4];
              std::uint32_t a[4];
              clear(scores);
              score_block<kD>(scores, q, own, k, block);
              powers.weigh(scores, own, block, true);
              pack_block(a, scores);
              add_along<kD>(acc, a, v, block);
            }
          }
          store_rows<kD>(q, acc, at.to(at.call.out, row, true), at.call.out.row, at.queries(row));
          if (at.call.out_rest.data != nullptr) {
            keep_rest(acc);
            store_rows<kD>(q, acc, at.to(at.call.out_rest, row, true), at.call.out_rest.row, at.queries(row));
          }
          if constexpr (kScan) {
            state.add(k, v, powers, at.count(row), false);
            if constexpr (kStates == 1) __syncthreads();
            state.put(memory.state((c + 1) % kStates));
          }
        });
    if (kScan)
      if (float* end = at.end(false)) state.save(end);
  }
};

// dq = (dy S^T + (dy v^T) f(k)) f'(q). S and dy are pairs of bf16: the sums cancel where v has a mean. Where S stands,
// its registers sum up D = f(q)^T dy instead, while the rows are at hand.
template <int kD, bool kScan>
struct MmaQueries {
  static constexpr int kTiles = kScan ? 5 : 3, kStages = kD <= 64 ? 2 : 1, kBuffers = kScan && kD <= 64 ? 2 : 1;
  using Memory = MmaMemory<kD, kTiles, kStages, 2 * kBuffers>;

  __device__ static void put(const Memory& memory, const StateRows<kD>& state, int buffer) {
    state.put(memory.state(2 * buffer));
    state.put_rest(memory.state(2 * buffer + 1));
  }
  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    const Powers powers = kScan ? make_powers(at.call, at.kv_head, memory.table(), kD) : Powers{nullptr};
    const bool has_rest = mma.gradient_rest != nullptr;
    const int own = warp() * 16;
    StateRows<kD> state;
    state.load(at.start());
    put(memory, state, 0);
    if constexpr (!kScan) state.load(nullptr);
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          const Range queries = at.queries(row);
          fetch_rows<kD>(memory.tile(stage, 0), at.q(), row, queries);
          fetch_rows<kD>(memory.tile(stage, 1), at.gradient(), row, queries);
          if (has_rest) fetch_rows<kD>(memory.tile(stage, 2), at.dense(mma.gradient_rest), row, queries);
          if constexpr (kScan) {
            fetch_rows<kD>(memory.tile(stage, 3), at.k(), row, {0, at.count(row)});
            fetch_rows<kD>(memory.tile(stage, 4), at.v(), row, {0, at.count(row)});
          }
        },
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          map_rows<kD>(memory.tile(stage, 0), at.call.map, at.queries(row));
          if constexpr (kScan) map_rows<kD>(memory.tile(stage, 3), at.call.map, {0, at.count(row)});
        },
        [&](int c, int stage) {
          const SharedTile<kD> q = memory.tile(stage, 0), g = memory.tile(stage, 1), rest = memory.tile(stage, 2);
          const SharedTile<kD> s = memory.state(c % kBuffers * 2), s_rest = memory.state(c % kBuffers * 2 + 1);
          const std::int64_t row = at.row(c, false);
          float acc[kD / 8][4];
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
          if constexpr (kScan) {
            const SharedTile<kD> k = memory.tile(stage, 3), v = memory.tile(stage, 4);
            if (powers.any()) scale_rows(acc, powers[own + lane() / 4 + 1], powers[own + lane() / 4 + 9]);
            for (int block = 0; block <= own; block += 16) {
              float scores[2][4];
              std::uint32_t a[4];
              clear(scores);
              score_block<kD>(scores, g, own, v, block);
              if (has_rest) score_block<kD>(scores, rest, own, v, block);
              powers.weigh(scores, own, block, true);
              pack_block(a, scores);
              add_along<kD>(acc, a, k, block);
              keep_rest(scores);
              pack_block(a, scores);
              add_along<kD>(acc, a, k, block);
            }
            state.add(k, v, powers, at.count(row), false);
            if constexpr (kBuffers == 1) __syncthreads();
            put(memory, state, (c + 1) % kBuffers);
          }
          vjp_slopes<kD>(acc, q, at.call.map);
          store_rows<kD>(rest, acc, at.to(at.call.dq, row, true), at.call.dq.row, at.queries(row));
          if constexpr (!kScan) state.add(q, g, powers, at.count(row), false);
        });
    if constexpr (!kScan) state.save(mma.end + mma.state_at(mma.first_cut + blockIdx.y, at.kv_head));
  }
};

// dk = (v D^T + (v dy^T) f(q)) f'(k),   dv = f(k) D + (f(k) f(q)^T) dy, with D running from the right to the left.
template <int kD, bool kScan>
struct MmaKeys {
  static constexpr int kTiles = kScan ? 4 : 2, kStages = kD <= 64 ? 2 : 1, kStates = kScan && kD <= 64 ? 2 : 1;
  using Memory = MmaMemory<kD, kTiles, kStages, kStates>;

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    const Powers powers = kScan ? make_powers(at.call, at.kv_head, memory.table(), kD) : Powers{nullptr};
    StateRows<kD> state;
    state.load(at.start());
    state.put(memory.state(0));
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, kScan);
          fetch_rows<kD>(memory.tile(stage, 0), at.k(), row, {0, at.count(row)});
          fetch_rows<kD>(memory.tile(stage, 1), at.v(), row, {0, at.count(row)});
          if constexpr (kScan) {
            fetch_rows<kD>(memory.tile(stage, 2), at.q(), row, at.queries(row));
            fetch_rows<kD>(memory.tile(stage, 3), at.gradient(), row, at.queries(row));
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
            state.add(memory.tile(stage, 2), memory.tile(stage, 3), powers, at.count(at.row(c, true)), true);
            if constexpr (kStates == 1) __syncthreads();
            state.put(memory.state((c + 1) % kStates));
          }
        });
    if (kScan)
      if (float* end = at.end(true)) state.save(end);
  }

  // dk, which leaves its rows through those of v, and then dv.
  template <bool kOfKeys>
  __device__ __forceinline__ static void vjp(const MmaPlace<kD>& at, const Memory& memory, const Powers& powers, int c,
                                             int stage) {
    const SharedTile<kD> k = memory.tile(stage, 0), v = memory.tile(stage, 1), d = memory.state(c % kStates);
    const std::int64_t row = at.row(c, kScan);
    const int own = warp() * 16, count = at.count(row);
    float acc[kD / 8][4];
    clear(acc);
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t a[4];
      (kOfKeys ? v : k).own(a, own, step);
      if constexpr (kOfKeys)
        add_across<kD>(acc, a, d, step);
      else
        add_along<kD>(acc, a, d, 16 * step);
    }
    if constexpr (kScan) {
      const SharedTile<kD> q = memory.tile(stage, 2), g = memory.tile(stage, 3);
      const int left = count - 1 - own - lane() / 4;
      if (powers.any()) scale_rows(acc, powers[max(left, 0)], powers[max(left - 8, 0)]);
      for (int block = own; block < count; block += 16) {
        float scores[2][4];
        std::uint32_t a[4];
        clear(scores);
        score_block<kD>(scores, kOfKeys ? v : k, own, kOfKeys ? g : q, block);
        powers.weigh(scores, own, block, false);
        pack_block(a, scores);
        add_along<kD>(acc, a, kOfKeys ? q : g, block);
      }
    }
    if constexpr (kOfKeys) vjp_slopes<kD>(acc, k, at.call.map);
    const Out& out = kOfKeys ? at.call.dk : at.call.dv;
    store_rows<kD>(v, acc, at.to(out, row, false), out.row, {0, count});
  }
};

}  // namespace fovea::scan::cuda
