#include "gemm/cuda/narrow_product.h"

#include <algorithm>

#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "core/cuda/mma.cuh"

// Very many rows times a small matrix: the matrix stays in shared memory, a warp takes 16 or 32 rows at a time. What
// costs is to read and write the rows, in pieces of 16 bytes.
namespace fovea::gemm {
namespace {

using namespace device;  // NOLINT

constexpr int kSide = 64, kWarps = 12, kThreadsOfBlock = 32 * kWarps;
constexpr int kSteps = kSide / 16, kTilesOfSide = kSide / 8;  // products of 64 terms; tiles of 64 columns

struct Operands {
  const void *a, *b;
  void* c;
  const void* bias;  // may be null
  std::int64_t rows;
  int k, n;             // multiples of 64
  int b_row, b_column;  // strides
  bool b_wide, bias_wide, relu;
};

template <class T>
__device__ inline float element(const void* data, bool wide, std::int64_t i) {
  return wide ? static_cast<const float*>(data)[i] : static_cast<float>(static_cast<const T*>(data)[i]);
}

// b as second operands, 8 bytes of a lane for each step and tile. A lane has 16 neighbours of every 64 columns of a
// row, of a and of c: a sum may take its terms in any order, and a product make its columns in any.
template <class T>
__device__ void keep_matrix(const Operands& p, uint2* to, float* bias) {
  const int tiles = p.n / 8, count = p.k / 16 * tiles * 32;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreadsOfBlock) {
    const int of = i % 32, tile = i / 32 % tiles, step = i / 32 / tiles;
    const int row = step / kSteps * kSide + of % 4 * 16 + step % kSteps * 4;
    const int column = tile / kTilesOfSide * kSide + of / 8 * 16 + tile % kTilesOfSide * 2 + of / 4 % 2;
    float x[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      x[e] = element<T>(p.b, p.b_wide, std::int64_t{row + e} * p.b_row + std::int64_t{column} * p.b_column);
    to[i] = {pack<T>(x[0], x[1]), pack<T>(x[2], x[3])};
  }
  for (int c = static_cast<int>(threadIdx.x); c < p.n; c += kThreadsOfBlock)
    bias[c] = p.bias == nullptr ? 0.0f : element<T>(p.bias, p.bias_wide, c);
}

// kBlocks: of 64 terms. kTiles: of 16 rows.
template <class T, int kBlocks, int kTiles>
__device__ void load_rows(const Operands& p, std::int64_t begin, std::uint32_t (&a)[kTiles][kBlocks * kSteps][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = begin + tile * 16 + half * 8 + lane() / 4;
      const T* const from = static_cast<const T*>(p.a) + row * p.k + lane() % 4 * 16;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        uint4 low{}, high{};
        if (row < p.rows) {
          low = reinterpret_cast<const uint4*>(from + block * kSide)[0];
          high = reinterpret_cast<const uint4*>(from + block * kSide)[1];
        }
        const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          a[tile][block * kSteps + step][half] = words[2 * step];
          a[tile][block * kSteps + step][2 + half] = words[2 * step + 1];
        }
      }
    }
}

template <int kTiles, int kCount>
__device__ inline void copy_rows(const std::uint32_t (&from)[kTiles][kCount][4],
                                 std::uint32_t (&to)[kTiles][kCount][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int s = 0; s < kCount; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) to[tile][s][i] = from[tile][s][i];
}

template <class T, int kTiles>
__device__ void store_rows(const Operands& p, std::int64_t begin, int first,
                           const float (&c)[kTiles][kTilesOfSide][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = begin + tile * 16 + half * 8 + lane() / 4;
      std::uint32_t words[kTilesOfSide];
#pragma unroll
      for (int t = 0; t < kTilesOfSide; ++t) {
        float x = c[tile][t][2 * half], y = c[tile][t][2 * half + 1];
        if (p.relu) {
          x = x < 0 ? 0.0f : x;
          y = y < 0 ? 0.0f : y;
        }
        words[t] = pack<T>(x, y);
      }
      if (row >= p.rows) continue;
      auto* const to = reinterpret_cast<uint4*>(static_cast<T*>(p.c) + row * p.n + first + lane() % 4 * 16);
      to[0] = make_uint4(words[0], words[1], words[2], words[3]);
      to[1] = make_uint4(words[4], words[5], words[6], words[7]);
    }
}

template <class T, int kBlocks, int kTiles>
__global__ void __launch_bounds__(kThreadsOfBlock, 1) narrow_product_kernel(Operands p) {
  extern __shared__ __align__(16) std::byte memory[];
  auto* const b = reinterpret_cast<uint2*>(memory);
  auto* const bias = reinterpret_cast<float*>(b + p.k / 16 * (p.n / 8) * 32);
  keep_matrix<T>(p, b, bias);
  __syncthreads();
  constexpr int kRows = 16 * kTiles;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps * kRows;
  using Rows = std::uint32_t[kTiles][kBlocks * kSteps][4];
  constexpr bool kAhead = kBlocks == 1;  // there are registers for the next rows
  std::int64_t begin = (std::int64_t{blockIdx.x} * kWarps + warp()) * kRows;
  Rows a, next;
  if (kAhead) load_rows<T, kBlocks, kTiles>(p, begin, next);
  for (; begin < p.rows; begin += step) {
    if constexpr (kAhead) {
      copy_rows(next, a);
      load_rows<T, kBlocks, kTiles>(p, begin + step, next);
    } else {
      load_rows<T, kBlocks, kTiles>(p, begin, a);
    }
#pragma unroll 1
    for (int first = 0; first < p.n; first += kSide) {
      float c[kTiles][kTilesOfSide][4];
#pragma unroll
      for (int t = 0; t < kTilesOfSide; ++t)
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
          for (int e = 0; e < 4; ++e) c[tile][t][e] = bias[first + lane() % 4 * 16 + t * 2 + e % 2];
#pragma unroll
      for (int s = 0; s < kBlocks * kSteps; ++s)
#pragma unroll
        for (int t = 0; t < kTilesOfSide; ++t) {
          const uint2 pair = b[(s * (p.n / 8) + first / 8 + t) * 32 + lane()];
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) multiply_add<T>(c[tile][t], a[tile][s], pair.x, pair.y);
        }
      store_rows<T, kTiles>(p, begin, first, c);
    }
  }
}

template <class T, int kBlocks, int kTiles>
bool launch(const Context& context, const Operands& p) {
  int card = 0, processors = 0, most = 0;
  check_cuda(cudaGetDevice(&card), "a card");
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, card), "a card");
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, card), "a card");
  const int bytes = p.k * p.n * static_cast<int>(sizeof(T)) + p.n * static_cast<int>(sizeof(float));
  if (bytes > most) return false;
  const auto kernel = narrow_product_kernel<T, kBlocks, kTiles>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "a matrix product");
  constexpr std::int64_t kRowsOfBlock = 16 * kTiles * kWarps;
  const std::int64_t wanted = (p.rows + kRowsOfBlock - 1) / kRowsOfBlock;
  kernel<<<static_cast<unsigned>(std::min<std::int64_t>(wanted, processors)), kThreadsOfBlock,
           static_cast<std::size_t>(bytes), stream_of(context)>>>(p);
  check_cuda(cudaGetLastError(), "a matrix product");
  return true;
}

template <class T>
bool launch(const Context& context, const Operands& p) {
  switch (p.k / kSide) {
    case 1: return launch<T, 1, 2>(context, p);
    case 2: return launch<T, 2, 2>(context, p);
    case 3: return launch<T, 3, 1>(context, p);
    default: return launch<T, 4, 1>(context, p);
  }
}

bool is_aligned(const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0; }

}  // namespace

bool multiply_narrow(const Context& context, const kernels::Product& io) {
  constexpr std::int64_t kLeastRows = 4096, kMostSide = 256;
  const auto& [a, b, c, epilogue] = io;
  const DType type = a.dtype();
  const bool narrow = type == DType::bf16 || type == DType::f16;
  const auto fits = [](std::int64_t side) { return side > 0 && side % kSide == 0 && side <= kMostSide; };
  if (!narrow || c.dtype() != type || epilogue.accumulate || a.rank() != 2 || b.rank() != 2 || !a.is_contiguous() ||
      !fits(a.dim(1)) || !fits(b.dim(1)) || a.dim(0) < kLeastRows || !is_aligned(a) || !is_aligned(c) ||
      (b.dtype() != type && b.dtype() != DType::f32))
    return false;
  const Tensor& bias = epilogue.bias;
  if (bias.defined() && bias.dtype() != type && bias.dtype() != DType::f32) return false;
  const Operands p{a.raw(),
                   b.raw(),
                   c.raw(),
                   bias.raw(),
                   a.dim(0),
                   static_cast<int>(a.dim(1)),
                   static_cast<int>(b.dim(1)),
                   static_cast<int>(b.stride(0)),
                   static_cast<int>(b.stride(1)),
                   b.dtype() == DType::f32,
                   bias.defined() && bias.dtype() == DType::f32,
                   epilogue.relu};
  return type == DType::bf16 ? launch<bfloat16>(context, p) : launch<float16>(context, p);
}

}  // namespace fovea::gemm
