#pragma once

#include "scan/cuda/mma_kernels.cuh"

namespace fovea::scan::cuda {

// o = f(q) S with the norm over all heads: a warp for each head, whose states all stand in shared memory. Each warp
// streams its own rows, 16 at a time; all meet once for the sums of their squares.
template <int kD>
struct MmaNorm {
  static constexpr int kStages = kD == 32 ? 6 : 3, kMostHeads = 16;  // as many bytes on the way
  static constexpr int kStep = SharedTile<kD>::bytes(16), kState = SharedTile<kD>::bytes(kD);
  static constexpr int kHeadBytes = kState + kStages * kStep;
  static constexpr int bytes(int heads) {
    return heads * kHeadBytes + 2 * 16 * kMostHeads * static_cast<int>(sizeof(float));
  }

  __device__ static void run(const MmaCall& mma) {
    const Call& call = mma.call;
    const Cut cut = mma.cuts[blockIdx.x];
    const PieceView& piece = call.pieces[cut.piece];
    const std::int32_t head = warp();
    const std::uint32_t base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_memory));
    const SharedTile<kD> state{base + static_cast<std::uint32_t>(head * kHeadBytes)};
    float* const squares = reinterpret_cast<float*>(shared_memory + call.heads * kHeadBytes);  // [2][16][heads]
    const auto stage = [&](int step) {
      return SharedTile<kD>{state.base + static_cast<std::uint32_t>(kState + step % kStages * kStep)};
    };
    put_state(state, mma.start + mma.state_at(cut.piece, call.kv_head_of(head)));
    const RowsView q = rows_of(call.q, piece.batch, piece.q0 + cut.begin, head);
    const int rows = static_cast<int>(cut.end - cut.begin), steps = (rows + 15) / 16;
    for (int step = 0; step < kStages - 1; ++step) fetch(stage(step), q, step * 16, rows);
    for (int step = 0; step < steps; ++step) {
      await_copies<kStages - 2>();
      __syncwarp();
      fetch(stage(step + kStages - 1), q, (step + kStages - 1) * 16, rows);
      float acc[kD / 8][4];
      read(acc, stage(step), state, call.map);
      float upper = 0, lower = 0;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        upper += acc[n][0] * acc[n][0] + acc[n][1] * acc[n][1];
        lower += acc[n][2] * acc[n][2] + acc[n][3] * acc[n][3];
      }
      upper = quad_sum(upper), lower = quad_sum(lower);
      float* const own = squares + (step % 2 * 16 + lane() / 4) * kMostHeads;
      if (lane() % 4 == 0) own[head] = upper, own[8 * kMostHeads + head] = lower;
      __syncthreads();
      upper = factor(call, own), lower = factor(call, own + 8 * kMostHeads);
      scale_rows(acc, upper, lower);
      const std::int64_t row = piece.q0 + cut.begin + step * 16;
      if (head == 0 && lane() % 4 == 0 && call.out_statistic.data != nullptr) {
        const std::int64_t at = offset_of(call.out_statistic, piece.batch, row + lane() / 4, 0);
        float* const statistic = static_cast<float*>(call.out_statistic.data) + at;
        if (step * 16 + lane() / 4 < rows) *statistic = upper;
        if (step * 16 + lane() / 4 + 8 < rows) statistic[8 * call.out_statistic.row] = lower;
      }
      store(call, call.out, stage(step), acc, offset_of(call.out, piece.batch, row, head), rows - step * 16);
      if (call.out_rest.data == nullptr) continue;
      keep_rest(acc);
      store(call, call.out_rest, stage(step), acc, offset_of(call.out_rest, piece.batch, row, head), rows - step * 16);
    }
  }

 private:
  __device__ __forceinline__ static void put_state(const SharedTile<kD>& tile, const float* state) {
    constexpr int kPairs = kD / 2;  // of a row: a warp has one row at a time, or two
    const int own = lane() / kPairs, pair = lane() % kPairs;
#pragma unroll 8
    for (int row = 0; row < kD; row += 32 / kPairs) {
      const float2 x = reinterpret_cast<const float2*>(state + row * kD)[lane()];
      store_shared(pack<bfloat16>(x.x, x.y), tile.at(row + own, pair / 4) + pair % 4 * 4);
    }
    __syncwarp();
  }
  __device__ __forceinline__ static void fetch(const SharedTile<kD>& tile, const RowsView& from, int first, int rows) {
#pragma unroll
    for (int e = lane(); e < 16 * kD / 8; e += 32) {
      const int row = e / (kD / 8), piece = e % (kD / 8);
      const bool exists = first + row < rows;
      copy16(tile.at(row, piece), exists ? from.data + (first + row) * from.stride + piece * 8 : from.data, exists);
    }
    commit_copies();
  }
  template <Map kMap>
  __device__ __forceinline__ static void read_as(float (&acc)[kD / 8][4], const SharedTile<kD>& rows,
                                                 const SharedTile<kD>& state) {
    clear(acc);
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t a[4];
      rows.own(a, 0, step);
#pragma unroll
      for (std::uint32_t& x : a)
        if constexpr (kMap != Map::identity)
          x = pack<bfloat16>(quick_feature(kMap, low_of(x)), quick_feature(kMap, high_of(x)));
      add_along<kD>(acc, a, state, 16 * step);
    }
  }
  __device__ __forceinline__ static void read(float (&acc)[kD / 8][4], const SharedTile<kD>& rows,
                                              const SharedTile<kD>& state, Map map) {
    switch (map) {
      case Map::identity: return read_as<Map::identity>(acc, rows, state);
      case Map::elu_plus_one: return read_as<Map::elu_plus_one>(acc, rows, state);
      case Map::elu: return read_as<Map::elu>(acc, rows, state);
      case Map::relu: return read_as<Map::relu>(acc, rows, state);
    }
  }
  // Of a row, from the squares of all heads in order.
  __device__ __forceinline__ static float factor(const Call& call, const float* squares) {
    float sum = 0;
    for (std::int32_t h = 0; h < call.heads; ++h) sum += squares[h];
    const float mean = sum / static_cast<float>(call.heads * kD) + static_cast<float>(call.norm_eps);
    return mean == 0 ? 0.0f : 1 / sqrtf(mean);
  }
  // Through the rows' own place in shared memory, which store_rows counts from the warp's 16 rows of a block on.
  __device__ __forceinline__ static void store(const Call&, const Out& out, const SharedTile<kD>& room,
                                               const float (&acc)[kD / 8][4], std::int64_t at, int rows) {
    const int first = warp() * 16;
    const SharedTile<kD> shifted{room.base - static_cast<std::uint32_t>(SharedTile<kD>::bytes(first))};
    store_rows<kD>(shifted, acc, static_cast<bfloat16*>(out.data) + at - first * out.row, out.row,
                   {first, first + min(rows, 16)});
  }
};

}  // namespace fovea::scan::cuda
