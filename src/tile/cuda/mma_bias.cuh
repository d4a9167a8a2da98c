#pragma once

#include "tile/cuda/bias_gradient.cuh"
#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

// The gradient of a bias that every pair has for itself: a block owns a tile of 64 x 64 pairs and sums up the gradients
// of their scores, head by head where heads share the bias. A tile that the plan leaves out is zero.
template <class T, int kWidth>
class MmaBias {
 public:
  using Tile = SharedTile<kWidth>;
  static constexpr int kPart = 32, kParts = kBlock / kPart;
  static constexpr int kResident = kWidth <= 64 ? 3 : 2;
  static constexpr int kBytes = 4 * Tile::bytes(kBlock);

  __device__ MmaBias(const Call& call, const PieceView& piece, std::int64_t query, std::int64_t key, char* memory)
      : call_(call),
        piece_(piece),
        query_(query),
        key_(key),
        queries_(static_cast<int>(min(piece.nq - query, std::int64_t{kBlock}))),
        keys_(static_cast<int>(min(piece.nk - key, std::int64_t{kBlock}))),
        memory_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))) {
#pragma unroll
    for (auto& part : sums_)
#pragma unroll
      for (auto& fragment : part)
#pragma unroll
        for (float& x : fragment) x = 0;
  }

  __device__ void add(std::int32_t head, std::int32_t mask) {
    __syncthreads();  // the tiles of the head before
    fetch(0, call_.q, head, false, call_.d_k);
    fetch(1, call_.d_o, head, false, call_.d_v);
    fetch(2, call_.k, call_.kv_head_of(head), true, call_.d_k);
    fetch(3, call_.v, call_.kv_head_of(head), true, call_.d_v);
    commit_copies();
    await_copies<0>();
    __syncthreads();
    const PairGradient gradient(call_, piece_, head);
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) {
      const FragmentMask<1> keeps(piece_.rows[0], mask, warp() * 16, part, keys_);
      float s[kPart / 8][4] = {}, g[kPart / 8][4] = {};
      multiply(tile(0), tile(2), part * kPart, s);
      multiply(tile(1), tile(3), part * kPart, g);
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) {
        const auto kept = [&](int e) {
          return (keeps.is_whole || keeps.keeps(0, 8 * n, e)) && warp() * 16 + row_of(e) < queries_;
        };
        const auto terms = [&](int e) { return gradient.terms_of(query_ + warp() * 16 + row_of(e)); };
        gradient.apply<false>({query_ + warp() * 16, key_ + part * kPart + 8 * n}, kept, terms, s[n], g[n]);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int p = 0; p < kParts; ++p) sums_[p][n][e] += p == part ? g[n][e] : 0.0f;  // no index at run time
      }
    }
  }

  // `adds`: to what other pieces left.
  __device__ void store(std::int32_t head, bool adds) const {
    const BiasArray<void*>& b = call_.d_bias;
    float* const to = static_cast<float*>(b.data) + piece_.batch * b.batch + head * b.head + piece_.d_bias_at;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = warp() * 16 + row_of(e), j = part * kPart + 8 * n + column_of(e);
          if (i >= queries_ || j >= keys_) continue;
          float& x = to[piece_.query_row(query_ + i) * b.query + piece_.key_row(key_ + j) * b.key];
          x = adds ? x + sums_[part][n][e] : sums_[part][n][e];
        }
  }

 private:
  __device__ Tile tile(int i) const { return {memory_ + static_cast<std::uint32_t>(i * Tile::bytes(kBlock))}; }
  __device__ void fetch(int i, const In& from, std::int32_t head, bool of_keys, int width) const {
    const Source<T> rows = source_of<T>(from, piece_, head, of_keys);
    tile(i).template fetch<kBlock>(rows.data + (of_keys ? key_ : query_) * rows.stride, rows.stride,
                                   of_keys ? keys_ : queries_, width);
  }
  // products += own rows . other rows [row, row + kPart)
  __device__ __forceinline__ static void multiply(const Tile& own, const Tile& other, int row,
                                                  float (&products)[kPart / 8][4]) {
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      std::uint32_t a[4];
      own.own(a, warp() * 16, step);
#pragma unroll
      for (int pair = 0; pair < kPart / 16; ++pair) {
        std::uint32_t b[4];
        other.across(b, row + 16 * pair, step);
        multiply_add<T>(products[2 * pair], a, b[0], b[1]);
        multiply_add<T>(products[2 * pair + 1], a, b[2], b[3]);
      }
    }
  }

  const Call& call_;
  const PieceView& piece_;
  std::int64_t query_, key_;
  int queries_, keys_;
  std::uint32_t memory_;
  float sums_[kParts][kPart / 8][4];
};

// Grid: (tiles of the largest piece, heads, or 1 where they share the bias, pieces).
template <class T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads, (MmaBias<T, kWidth>::kResident))
    mma_bias_kernel(const __grid_constant__ Call call) {
  extern __shared__ __align__(1024) char memory[];
  const PieceView& piece = call.pieces[blockIdx.z];
  const auto columns = static_cast<std::uint32_t>((piece.nk + kBlock - 1) / kBlock);
  if (columns == 0 || blockIdx.x >= columns * ((piece.nq + kBlock - 1) / kBlock)) return;
  const auto row = static_cast<std::int32_t>(blockIdx.x / columns),
             column = static_cast<std::int32_t>(blockIdx.x % columns);
  const HeadSpan heads(call, piece, call.d_bias.head == 0);
  if (heads.begin >= heads.end) return;
  MmaBias<T, kWidth> sums(call, piece, std::int64_t{row} * kBlock, std::int64_t{column} * kBlock, memory);
  const std::int32_t mask = mask_of(piece.rows[0], row, column);
  for (std::int32_t head = heads.begin; mask != ListView::kNone && head < heads.end; ++head) sums.add(head, mask);
  sums.store(heads.begin, call.adds_bias);
}

template <class T, int kWidth>
void run_mma_bias(const Launch& launch, const Call& call, dim3 grid) {
  launch_mma<mma_bias_kernel<T, kWidth>>(launch, call, grid, MmaBias<T, kWidth>::kBytes, kMmaThreads);
}
template <class T, int kWidth>
inline constexpr MmaKernel kMmaBias{kWidth,           1,         MmaBias<T, kWidth>::kBytes,
                                    Variant::general, Role::row, run_mma_bias<T, kWidth>};

}  // namespace fovea::tile::cuda
