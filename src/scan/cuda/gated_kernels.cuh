#pragma once

#include "scan/cuda/gated_chunk.cuh"

namespace fovea::scan::cuda {

// Stages of tiles and logs, then a tile by itself, what the parts of a chunk have, and a room for every warp.
template <int kD, int kTiles, int kStages, bool kBackward, bool kWeighs = kBackward>
struct GatedMemory {
  static constexpr int kParts = kD / kPart, kTile = ChunkShape<kD>::kBytes, kTable = ChannelTable<kD>::kBytes;
  static constexpr int kStage = kTiles * kTile + kTable;
  static constexpr int kAsideAt = kStages * kStage, kGradientAt = kAsideAt + (kBackward ? kTile : 0);
  static constexpr int kPairsAt = kGradientAt + (kBackward ? kTable : 0);
  static constexpr int kWeightsAt = kPairsAt + (kBackward ? kParts * PairTable::kBytes : 0);
  static constexpr int kTotalsAt = kWeightsAt + kParts * WeightTile::kBytes;
  static constexpr int kRoomsAt = kTotalsAt + kParts * kD * static_cast<int>(sizeof(float));
  static constexpr int kStepsAt = kRoomsAt + kParts * 512;
  static constexpr int kBytes = kStepsAt + (kWeighs && !kBackward ? kTable / 2 : 0);

  std::uint32_t base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_memory));
  __device__ SharedTile<kD> tile(int stage, int i) const { return {address(stage * kStage + i * kTile)}; }
  __device__ ChannelTable<kD> logs(int stage) const { return {floats(stage * kStage + kTiles * kTile)}; }
  __device__ SharedTile<kD> aside() const { return {address(kAsideAt)}; }
  __device__ ChannelTable<kD> gradient() const { return {floats(kGradientAt)}; }
  __device__ PairTable pairs(int part) const { return {floats(kPairsAt + part * PairTable::kBytes)}; }
  __device__ WeightTile weights(int part) const { return {address(kWeightsAt + part * WeightTile::kBytes)}; }
  __device__ float* totals(int part) const { return floats(kTotalsAt) + part * kD; }
  // Of every other row; going backward gone before the gradient comes.
  __device__ ChannelTable<kD> steps() const { return kBackward ? gradient() : ChannelTable<kD>{floats(kStepsAt)}; }
  __device__ std::uint32_t room() const { return address(kRoomsAt + warp() * 512); }

 private:
  __device__ std::uint32_t address(int at) const { return base + static_cast<std::uint32_t>(at); }
  __device__ static float* floats(int at) { return reinterpret_cast<float*>(shared_memory + at); }
};

// Calls f(part) for the parts of a lane's channel.
template <int kD, class F>
__device__ __forceinline__ void each_own_part(const F& f) {
#pragma unroll 1
  for (int part = ChannelLane<kD>::first_part(); part < kD / kPart; part += 2) f(part);
}
// Rows of a part that a range of the chunk's has.
__device__ __forceinline__ Range in_part(const Range& range, int part) {
  return {range.begin - part * kPart, range.end - part * kPart};
}

// Sums x^T y over a segment: of keys and values, or of queries and gradients.
template <int kD, bool kQueries>
struct GatedSum {
  static constexpr int kStages = 2;
  using Memory = GatedMemory<kD, 2, kStages, false>;

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    if (at.head % at.call.group() != 0) return;  // the heads of a group have the same keys
    const Memory memory;
    const RowsView x = kQueries ? at.q() : at.k(), y = kQueries ? at.gradient() : at.v();
    const auto range = [&](std::int64_t row) { return kQueries ? at.queries(row) : Range{0, at.count(row)}; };
    StateSlice<kD, false> state;
    state.load(nullptr);
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, kQueries);
          fetch_rows<kD>(memory.tile(stage, 0), x, row, range(row));
          fetch_rows<kD>(memory.tile(stage, 1), y, row, range(row));
          fetch_logs<kD>(memory.logs(stage), at, row);
        },
        [&](int c, int stage) { map_rows<kD>(memory.tile(stage, 0), at.call.map, range(at.row(c, kQueries))); },
        [&](int, int stage) {
          const SharedTile<kD> xs = memory.tile(stage, 0);
          sum_logs<kD>(memory.logs(stage), memory.totals(0), at.call.decay == Decay::step, {nullptr});
          each_own_part<kD>([&](int part) { fade_rows<kD>(xs, xs, memory.logs(stage), part, !kQueries); });
          __syncwarp();
#pragma unroll 1
          for (int i = 0; i < Memory::kParts; ++i) {
            const int part = kQueries ? Memory::kParts - 1 - i : i;
            std::uint32_t a[4];
            own_transposed(xs, a, warp() * 16, part);
            state.add(memory.totals(part), a, memory.tile(stage, 1), part * kPart);
          }
          __syncwarp();  // the totals are written again
        });
    state.save(mma.end + mma.state_at(mma.first_cut + blockIdx.y, at.kv_head));
  }
};

// o = f(q) S and the pairs of each part.
template <int kD>
struct GatedForward {
  static constexpr int kStages = 2;
  using Memory = GatedMemory<kD, 3, kStages, false, true>;

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    StateSlice<kD, true> state;
    state.load(at.start());
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          fetch_rows<kD>(memory.tile(stage, 0), at.q(), row, at.queries(row));
          fetch_rows<kD>(memory.tile(stage, 1), at.k(), row, {0, at.count(row)});
          fetch_rows<kD>(memory.tile(stage, 2), at.v(), row, {0, at.count(row)});
          fetch_logs<kD>(memory.logs(stage), at, row);
        },
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          map_rows<kD>(memory.tile(stage, 0), at.call.map, at.queries(row));
          map_rows<kD>(memory.tile(stage, 1), at.call.map, {0, at.count(row)});
        },
        [&](int c, int stage) {
          prepare(at, memory, stage);
          const std::int64_t row = at.row(c, false);
          for (int part = 0; part * kPart < at.count(row); ++part) walk(at, memory, state, {row, stage, part});
        });
    if (float* end = at.end(false)) state.save(end);
  }

 private:
  struct Step {
    std::int64_t row;  // where the chunk begins
    int stage, part;
  };

  __device__ __forceinline__ static void prepare(const MmaPlace<kD>& at, const Memory& memory, int stage) {
    const SharedTile<kD> q = memory.tile(stage, 0), k = memory.tile(stage, 1);
    const ChannelTable<kD> logs = memory.logs(stage);
    sum_logs<kD>(logs, memory.totals(0), at.call.decay == Decay::step, memory.steps());
    __syncthreads();
    put_weights<kD>(memory.weights(warp()), q, k, logs, memory.steps());
    __syncthreads();
    each_own_part<kD>([&](int part) {
      fade_rows<kD>(q, q, logs, part, false);
      fade_rows<kD>(k, k, logs, part, true);
    });
    __syncthreads();
  }
  __device__ __forceinline__ static void walk(const MmaPlace<kD>& at, const Memory& memory, StateSlice<kD, true>& state,
                                              const Step& step) {
    const Call& call = at.call;
    const int first = step.part * kPart;
    float out[2][4];
    std::uint32_t v[4], b[4];
    clear(out);
    if (call.output_type == DType::f32)  // to be normalised: see MmaForward
      state.template read<true>(out, memory.tile(step.stage, 0), first);
    else
      state.template read<false>(out, memory.tile(step.stage, 0), first);
    own_transposed(memory.tile(step.stage, 2), v, warp() * 16, step.part);
    memory.weights(step.part).across(b);
    multiply_add<bfloat16>(out[0], v, b[0], b[1]);
    multiply_add<bfloat16>(out[1], v, b[2], b[3]);
    state.add(memory.totals(step.part), v, memory.tile(step.stage, 1), first);
    const Range queries = in_part(at.queries(step.row), step.part);
    if (call.output_type == DType::f32)
      return store_wide_slice(out, at.template to<float>(call.out, step.row + first, true), call.out.row, queries);
    store_slice(memory.room(), out, at.to(call.out, step.row + first, true), call.out.row, queries);
    if (call.out_rest.data == nullptr) return;
    keep_rest(out);
    store_slice(memory.room(), out, at.to(call.out_rest, step.row + first, true), call.out_rest.row, queries);
  }
};

// dq = (S dy + the pairs of each part) f'(q); `terms` become f(q) df(q).
template <int kD>
struct GatedQueries {
  static constexpr int kStages = 1;
  using Memory = GatedMemory<kD, 4, kStages, true>;

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    const bool has_rest = mma.gradient_rest != nullptr;  // dq cancels where v has a mean, as without gates
    const SharedTile<kD> rest = memory.aside();
    StateSlice<kD, false> state;
    state.load(at.start());
    each_chunk<kStages>(
        at.chunks,
        [&](int c, int stage) {
          const std::int64_t row = at.row(c, false);
          fetch_all(at, memory, row, stage);
          if (has_rest) fetch_rows<kD>(rest, at.dense(mma.gradient_rest), row, at.queries(row));
        },
        [&](int c, int stage) { map_both(at, memory, at.row(c, false), stage); },
        [&](int c, int stage) {
          const SharedTile<kD> k = memory.tile(stage, 1), v = memory.tile(stage, 2), g = memory.tile(stage, 3);
          const ChannelTable<kD> logs = memory.logs(stage);
          sum_logs<kD>(logs, memory.totals(0), at.call.decay == Decay::step, {nullptr});
          put_products<kD, false>(memory.pairs(warp()), g, has_rest ? &rest : nullptr, v);
          __syncthreads();
          each_own_part<kD>([&](int part) {
            vjp_pairs<kD, false>(memory.gradient(), k, memory.pairs(part), logs, part);
            fade_rows<kD>(k, k, logs, part, true);
          });
          __syncwarp();  // nobody else needs these columns
          const std::int64_t row = at.row(c, false);
          for (int part = 0; part * kPart < at.count(row); ++part) {
            float out[2][4];
            std::uint32_t y[4];
            clear(out);
            state.template read<true>(out, g, part * kPart);
            if (has_rest) state.template read<false>(out, rest, part * kPart);
            finish(at, memory, out, row, part);
            own_transposed(k, y, warp() * 16, part);
            state.add(memory.totals(part), y, v, part * kPart);
          }
        });
    if (float* end = at.end(false)) state.save(end);
  }

  // Tiles of q, k, v and dy.
  __device__ static void fetch_all(const MmaPlace<kD>& at, const Memory& memory, std::int64_t row, int stage) {
    fetch_rows<kD>(memory.tile(stage, 0), at.q(), row, at.queries(row));
    fetch_rows<kD>(memory.tile(stage, 1), at.k(), row, {0, at.count(row)});
    fetch_rows<kD>(memory.tile(stage, 2), at.v(), row, {0, at.count(row)});
    fetch_rows<kD>(memory.tile(stage, 3), at.gradient(), row, at.queries(row));
    fetch_logs<kD>(memory.logs(stage), at, row);
  }
  __device__ static void map_both(const MmaPlace<kD>& at, const Memory& memory, std::int64_t row, int stage) {
    map_rows<kD>(memory.tile(stage, 0), at.call.map, at.queries(row));
    map_rows<kD>(memory.tile(stage, 1), at.call.map, {0, at.count(row)});
  }

 private:
  __device__ __forceinline__ static void finish(const MmaPlace<kD>& at, const Memory& memory, float (&out)[2][4],
                                                std::int64_t row, int part) {
    const Range queries = in_part(at.queries(row), part);
    const int first = part * kPart;
    float* const terms = at.mma.terms == nullptr ? nullptr : at.mma.terms + at.term(row + first);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = 8 * n + column_of(e), channel = warp() * 16 + row_of(e);
        const float f = load_element(memory.tile(0, 0), first + i, channel);
        float x = out[n][e] * quick_exp2(memory.logs(0).at(first + i, channel));
        x += memory.gradient().at(first + i, channel);
        if (terms != nullptr && i >= queries.begin && i < queries.end)
          terms[std::int64_t{i} * at.call.heads * kD + channel] = f * x;
        out[n][e] = at.call.map == Map::identity ? x : x * slope<float>(at.call.map, f);
      }
    store_slice(memory.room(), out, at.to(at.call.dq, row + first, true), at.call.dq.row, queries);
  }
};

// The gradient of the logs of a warp's channels, from the right to the left: sums of f(q) df(q) - f(k) df(k) over all
// rows from a row on, beginning with what stands behind the segment. A lane has channels row_of(0) and row_of(2).
struct LogGradient {
  float behind[2] = {0, 0};

  // Goes over 16 rows: element e of terms[n] is that of row 8 n + column_of(e), channel row_of(e), and becomes the sum.
  __device__ __forceinline__ void add(float (&terms)[2][4]) {
#pragma unroll
    for (int n = 1; n >= 0; --n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& first = terms[n][2 * half];
        float& second = terms[n][2 * half + 1];
        const float own = first + second;
        float after = 0, all = own;  // of the rows of the lanes behind, and of all four
#pragma unroll
        for (int other = 1; other < 4; ++other) {
          const float x = __shfl_xor_sync(0xffffffffu, own, other);
          all += x;
          if ((lane() % 4 ^ other) > lane() % 4) after += x;
        }
        second += behind[half] + after;
        first += second;
        behind[half] += __shfl_sync(0xffffffffu, all, lane() / 4 * 4);
      }
  }
};

// dk = (D v + pairs) f'(k), dv = D^T f(k) + pairs, D running from the right to the left; and the gradient of the logs.
template <int kD>
struct GatedKeys {
  static constexpr int kStages = 1;
  using Memory = GatedMemory<kD, 4, kStages, true>;
  struct State {
    StateSlice<kD, true> values;
    StateSlice<kD, false> channels;
    LogGradient logs;
  };
  struct Place {
    std::int64_t row;  // where the chunk begins
    int part;
  };

  __device__ static void run(const MmaCall& mma) {
    const MmaPlace<kD> at(mma);
    const Memory memory;
    State state;
    state.values.load(at.start());
    state.channels.load(at.start());
    begin_logs(at, state);
    each_chunk<kStages>(
        at.chunks, [&](int c, int stage) { GatedQueries<kD>::fetch_all(at, memory, at.row(c, true), stage); },
        [&](int c, int stage) { GatedQueries<kD>::map_both(at, memory, at.row(c, true), stage); },
        [&](int c, int) {
          prepare(at, memory);
          const std::int64_t row = at.row(c, true);
          for (int part = (at.count(row) - 1) / kPart; part >= 0; --part) {
            float terms[2][4];
            load_terms(at, terms, row, part);  // they are long on their way
            vjp_values(at, memory, state.values, row, part);
            vjp_keys(at, memory, state, terms, {row, part});
          }
        });
    if (float* end = at.end(true)) state.channels.save(end);
  }

 private:
  // Every channel's state behind the segment times its gradient.
  __device__ __forceinline__ static void begin_logs(const MmaPlace<kD>& at, State& state) {
    const MmaCall& mma = at.mma;
    const bool is_last = at.cut.end == at.piece.nk;
    const float* const states = is_last ? mma.last_states : mma.cut_states;
    if (states == nullptr || at.start() == nullptr) return;
    StateSlice<kD, false> behind;
    behind.load(states + mma.state_at(is_last ? at.cut.piece : mma.first_cut + blockIdx.y + 1, at.kv_head));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) sum += behind.s[n][e] * state.channels.s[n][e];
      state.logs.behind[half] = quad_sum(sum);
    }
  }
  __device__ __forceinline__ static void prepare(const MmaPlace<kD>& at, const Memory& memory) {
    const SharedTile<kD> q = memory.tile(0, 0), k = memory.tile(0, 1), v = memory.tile(0, 2), g = memory.tile(0, 3);
    const ChannelTable<kD> logs = memory.logs(0);
    sum_logs<kD>(logs, memory.totals(0), at.call.decay == Decay::step, memory.steps());
    put_products<kD, true>(memory.pairs(warp()), g, nullptr, v);
    __syncthreads();
    put_weights<kD>(memory.weights(warp()), q, k, logs, memory.steps());
    __syncthreads();
    each_own_part<kD>([&](int part) {
      vjp_pairs<kD, true>(memory.gradient(), q, memory.pairs(part), logs, part);
      fade_rows<kD>(q, q, logs, part, false);
      fade_rows<kD>(k, memory.aside(), logs, part, true);
    });
    __syncthreads();
  }
  __device__ __forceinline__ static void vjp_values(const MmaPlace<kD>& at, const Memory& memory,
                                                    StateSlice<kD, true>& state, std::int64_t row, int part) {
    const int first = part * kPart;
    float out[2][4];
    std::uint32_t g[4], b[4];
    clear(out);
    state.template read<false>(out, memory.aside(), first);
    own_transposed(memory.tile(0, 3), g, warp() * 16, part);
    memory.weights(part).along(b);
    multiply_add<bfloat16>(out[0], g, b[0], b[1]);
    multiply_add<bfloat16>(out[1], g, b[2], b[3]);
    state.add(memory.totals(part), g, memory.tile(0, 0), first);
    store_slice(memory.room(), out, at.to(at.call.dv, row + first, false), at.call.dv.row,
                in_part({0, at.count(row)}, part));
  }
  __device__ __forceinline__ static void vjp_keys(const MmaPlace<kD>& at, const Memory& memory, State& state,
                                                  float (&terms)[2][4], const Place& place) {
    const std::int64_t row = place.row;
    const int part = place.part, first = part * kPart;
    float out[2][4];
    std::uint32_t q[4];
    clear(out);
    state.channels.template read<true>(out, memory.tile(0, 2), first);
    own_transposed(memory.tile(0, 0), q, warp() * 16, part);
    state.channels.add(memory.totals(part), q, memory.tile(0, 3), first);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = first + 8 * n + column_of(e), channel = warp() * 16 + row_of(e);
        const float f = load_element(memory.tile(0, 1), i, channel);
        const float last = memory.logs(0).at(first + kPart - 1, channel);
        const float x = out[n][e] * quick_exp2(last - memory.logs(0).at(i, channel)) + memory.gradient().at(i, channel);
        terms[n][e] -= f * x;
        out[n][e] = at.call.map == Map::identity ? x : x * slope<float>(at.call.map, f);
      }
    store_slice(memory.room(), out, at.to(at.call.dk, row + first, false), at.call.dk.row,
                in_part({0, at.count(row)}, part));
    if (at.mma.terms == nullptr) return;
    state.logs.add(terms);
    store_logs(at, terms, row, part);
  }
  // Of queries; zero where there is none.
  __device__ __forceinline__ static void load_terms(const MmaPlace<kD>& at, float (&terms)[2][4], std::int64_t row,
                                                    int part) {
    const Range queries = in_part(at.queries(row), part);
    clear(terms);
    if (at.mma.terms == nullptr) return;
    const float* const from = at.mma.terms + at.term(row + part * kPart);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = 8 * n + column_of(e);
        if (i >= queries.begin && i < queries.end)
          terms[n][e] = from[std::int64_t{i} * at.call.heads * kD + warp() * 16 + row_of(e)];
      }
  }
  __device__ __forceinline__ static void store_logs(const MmaPlace<kD>& at, const float (&terms)[2][4],
                                                    std::int64_t row, int part) {
    const Call& call = at.call;
    const std::int64_t first = row + part * kPart;
    const bool aside = at.mma.channel_logs != nullptr;  // of steps: (key rows, heads, kD), summed later
    const std::int64_t stride = aside ? std::int64_t{call.kv_heads} * kD : call.d_log_decay.row;
    float* const to = aside ? at.mma.channel_logs + ((at.piece.first_k + first) * call.kv_heads + at.kv_head) * kD
                            : static_cast<float*>(call.d_log_decay.data) +
                                  offset_of(call.d_log_decay, at.piece.batch, at.piece.k0 + first, at.kv_head);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = 8 * n + column_of(e);
        if (first + i < at.cut.end) to[i * stride + warp() * 16 + row_of(e)] = terms[n][e];
      }
  }
};

}  // namespace fovea::scan::cuda
