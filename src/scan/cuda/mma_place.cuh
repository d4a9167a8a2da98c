#pragma once

#include "scan/cuda/column.cuh"

namespace fovea::scan::cuda {

// Rows to write, from a chunk's first on.
struct OutRows {
  bfloat16* data;
  std::int64_t stride;
};

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
  // Starts to copy what a chunk's queries are scaled with.
  __device__ void fetch_scales(const RowScales<kD>& to, std::int64_t row) const {
    to.fetch(mma.scales + (piece.first_q - piece.shift) * call.heads + head, call.heads, row, queries(row));
  }
  // Of a position's query among `terms`.
  __device__ std::int64_t term(std::int64_t row) const {
    return ((piece.first_q - piece.shift + row) * call.heads + head) * kD;
  }
  __device__ const float* start() const {
    if (mma.start == nullptr) return nullptr;
    return mma.start + mma.state_at(mma.start_by_cut ? mma.first_cut + blockIdx.y : cut.piece, kv_head);
  }
  // For the heads of a group one writes.
  __device__ float* end(bool back) const {
    if (mma.end == nullptr || !is_last(back) || head % call.group() != 0) return nullptr;
    return mma.end + mma.state_at(cut.piece, kv_head);
  }
  // The same of gradients that run along: every query head has its own, and the first of a group what comes from
  // outside.
  __device__ const float* gradient_start() const {
    if (mma.start_by_cut) return mma.start + mma.gradient_at(mma.first_cut + blockIdx.y, head);
    return head % call.group() == 0 ? start() : nullptr;
  }
  __device__ float* gradient_end(bool back) const {
    return mma.end == nullptr || !is_last(back) ? nullptr : mma.end + mma.gradient_at(cut.piece, head);
  }
  __device__ bool is_last(bool back) const { return back ? cut.begin == 0 : cut.end == piece.nk; }
  // Where gradients of a chunk's keys or values go: dense by query head, to be summed, or to the caller.
  __device__ OutRows key_gradient(bool of_keys, std::int64_t row) const {
    const Out& out = of_keys ? call.dk : call.dv;
    void* const aside = of_keys ? mma.dk_heads : mma.dv_heads;
    if (aside == nullptr) return {to(out, row, false), out.row};
    const std::int64_t stride = std::int64_t{call.heads} * kD;
    return {static_cast<bfloat16*>(aside) + (piece.first_k + row) * stride + head * kD, stride};
  }
  // Of a chunk's first row.
  template <class T = bfloat16>
  __device__ T* to(const Out& out, std::int64_t row, bool of_queries) const {
    const std::int64_t first = of_queries ? piece.q0 - piece.shift : piece.k0;
    return static_cast<T*>(out.data) + offset_of(out, piece.batch, first + row, of_queries ? head : kv_head);
  }
  // Own rows of the output, and what they lost where that is wanted, through `room`.
  __device__ __forceinline__ void store_outputs(const SharedTile<kD>& room, float (&acc)[kD / 8][4],
                                                std::int64_t row) const {
    if (call.output_type == DType::f32)
      return store_wide_rows<kD>(acc, to<float>(call.out, row, true), call.out.row, queries(row));
    store_rows<kD>(room, acc, to(call.out, row, true), call.out.row, queries(row));
    if (call.out_rest.data == nullptr) return;
    keep_rest(acc);
    store_rows<kD>(room, acc, to(call.out_rest, row, true), call.out_rest.row, queries(row));
  }
};

extern __shared__ __align__(128) unsigned char shared_memory[];

// Tiles of stages, then those of states, then powers of the decay. With a denominator also its column of states, as
// pairs of bf16, and for every stage what the rows of a chunk are scaled with.
template <int kD, int kTiles, int kStages, int kStates, int kColumns = 0, bool kScales = false>
struct MmaMemory {
  static constexpr int kTableAt = (kTiles * kStages + kStates) * ChunkShape<kD>::kBytes;
  static constexpr int kColumnsAt = kTableAt + (kD + 4) * static_cast<int>(sizeof(float));
  static constexpr int kScalesAt = kColumnsAt + kColumns * PairColumn<kD>::kBytes;
  static constexpr int kBytes = kScalesAt + (kScales ? kStages * RowScales<kD>::kBytes : 0);

  std::uint32_t base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_memory));
  __device__ SharedTile<kD> tile(int stage, int i) const {
    return {base + static_cast<std::uint32_t>((stage * kTiles + i) * ChunkShape<kD>::kBytes)};
  }
  __device__ SharedTile<kD> state(int i) const { return tile(kStages, i); }
  __device__ float* table() const { return reinterpret_cast<float*>(shared_memory + kTableAt); }
  __device__ PairColumn<kD> column(int i) const {
    return {base + static_cast<std::uint32_t>(kColumnsAt + i * PairColumn<kD>::kBytes)};
  }
  __device__ RowScales<kD> scales(int stage) const {
    return {base + static_cast<std::uint32_t>(kScalesAt + stage * RowScales<kD>::kBytes)};
  }
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

}  // namespace fovea::scan::cuda
