#include "ops/feed_forward_kernels.h"

#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "core/cuda/mma.cuh"
#include "policy/activation.h"

// The feed-forward layer of a narrow stack in one pass: the weights stay in shared memory, a warp takes 32 rows at a
// time, and what lies between the products never leaves the registers.
namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr int kWidth = 64, kChunk = 16, kWarps = 12, kThreadsOfBlock = 32 * kWarps;
constexpr int kTiles = 2, kRows = 16 * kTiles;          // of a warp
constexpr int kSteps = kWidth / 16, kOut = kWidth / 8;  // steps of the first product; tiles of the second

struct Operands {
  const void* x;
  void* y;
  const float *in, *in_bias, *out, *out_bias;  // biases may be null
  std::int64_t rows;
  int inner, columns;  // columns of the first product: inner, or twice that
};

// Second operands, as a lane reads them: 8 bytes for each step and tile.
struct Shared {
  uint2 *in, *out;
  float *in_bias, *out_bias;

  __device__ Shared(std::byte* at, const Operands& p)
      : in(reinterpret_cast<uint2*>(at)),
        out(in + kSteps * p.columns / 8 * 32),
        in_bias(reinterpret_cast<float*>(out + p.inner / kChunk * kOut * 32)),
        out_bias(in_bias + p.columns) {}
};

std::size_t shared_bytes(int inner, int columns) {
  return (kSteps * static_cast<std::size_t>(columns) / 8 + static_cast<std::size_t>(inner) / kChunk * kOut) * 32 *
             sizeof(uint2) +
         (static_cast<std::size_t>(columns) + kWidth) * sizeof(float);
}

// Which columns of a row a lane has: 16 neighbours, so that rows are read and written in pieces of 16 bytes. A sum may
// take its terms in any order, and a product make its columns in any.
__device__ inline int first_column() { return lane() % 4 * 16; }

template <class T>
__device__ void keep_weights(const Operands& p, const Shared& to) {
  const int tiles = p.columns / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kSteps * tiles * 32; i += kThreadsOfBlock) {
    const int of = i % 32, tile = i / 32 % tiles, step = i / 32 / tiles;
    const float* const from = p.in + (of % 4 * 16 + step * 4) * p.columns + tile * 8 + of / 4;
    to.in[i] = {pack<T>(from[0], from[p.columns]), pack<T>(from[2 * p.columns], from[3 * p.columns])};
  }
  for (int i = static_cast<int>(threadIdx.x); i < p.inner / kChunk * kOut * 32; i += kThreadsOfBlock) {
    const int of = i % 32, tile = i / 32 % kOut, step = i / 32 / kOut, column = of / 8 * 16 + tile * 2 + of / 4 % 2;
    const float* const from = p.out + (step * kChunk + of % 4 * 2) * kWidth + column;
    to.out[i] = {pack<T>(from[0], from[kWidth]), pack<T>(from[8 * kWidth], from[9 * kWidth])};
  }
  for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kThreadsOfBlock)
    to.in_bias[c] = p.in_bias == nullptr ? 0.0f : p.in_bias[c];
  for (int c = static_cast<int>(threadIdx.x); c < kWidth; c += kThreadsOfBlock)
    to.out_bias[c] = p.out_bias == nullptr ? 0.0f : p.out_bias[c];
}

// Within two units of f32: what comes of it is rounded to 16 bits.
struct QuickSilu {
  __device__ static float apply(float x) { return __fdividef(x, 1.0f + quick_exp2(-x * math::kLog2e<float>)); }
};

// A warp's 32 rows as first operands of the steps: rows[tile][half] are the 32 bytes of a lane in row 16 tile + 8 half.
template <class T>
struct RowTile {
  std::uint32_t a[kTiles][kSteps][4];

  __device__ void load(const Operands& p, std::int64_t begin) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t row = begin + tile * 16 + half * 8 + lane() / 4;
        uint4 low{}, high{};
        if (row < p.rows) {
          const auto* const from =
              reinterpret_cast<const uint4*>(static_cast<const T*>(p.x) + row * kWidth + first_column());
          low = from[0];
          high = from[1];
        }
        const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          a[tile][step][half] = words[2 * step];
          a[tile][step][2 + half] = words[2 * step + 1];
        }
      }
  }
};

// h = act(x W + b) of 16 inner channels, as the first operand of the second product.
template <class T, bool kGated, class Act>
__device__ void make_chunk(const Operands& p, const Shared& from, const RowTile<T>& x, int chunk,
                           std::uint32_t (&h)[kTiles][4]) {
  constexpr int kParts = kGated ? 2 : 1;
  float z[kTiles][kParts][2][4];
#pragma unroll
  for (int part = 0; part < kParts; ++part)
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const float* const bias = from.in_bias + part * p.inner + chunk * kChunk + t * 8 + lane() % 4 * 2;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int e = 0; e < 4; ++e) z[tile][part][t][e] = bias[e % 2];
    }
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        const int column_tile = part * (p.inner / 8) + chunk * 2 + t;
        const uint2 b = from.in[(step * (p.columns / 8) + column_tile) * 32 + lane()];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) multiply_add<T>(z[tile][part][t], x.a[tile][step], b.x, b.y);
      }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      float y[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        y[e] = Act::apply(z[tile][0][t][e]);
        if constexpr (kGated) y[e] *= z[tile][kParts - 1][t][e];
      }
      h[tile][2 * t] = pack<T>(y[0], y[1]);
      h[tile][2 * t + 1] = pack<T>(y[2], y[3]);
    }
}

template <class T>
__device__ void store_rows(const Operands& p, std::int64_t begin, const float (&y)[kTiles][kOut][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = begin + tile * 16 + half * 8 + lane() / 4;
      std::uint32_t words[kOut];
#pragma unroll
      for (int t = 0; t < kOut; ++t) words[t] = pack<T>(y[tile][t][2 * half], y[tile][t][2 * half + 1]);
      if (row >= p.rows) continue;
      auto* const to = reinterpret_cast<uint4*>(static_cast<T*>(p.y) + row * kWidth + first_column());
      to[0] = make_uint4(words[0], words[1], words[2], words[3]);
      to[1] = make_uint4(words[4], words[5], words[6], words[7]);
    }
}

template <class T, bool kGated, class Act>
__global__ void __launch_bounds__(kThreadsOfBlock, 1) feed_forward_kernel(Operands p) {
  extern __shared__ __align__(16) std::byte memory[];
  const Shared weights(memory, p);
  keep_weights<T>(p, weights);
  __syncthreads();
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps * kRows;
  for (std::int64_t begin = (std::int64_t{blockIdx.x} * kWarps + warp()) * kRows; begin < p.rows; begin += step) {
    RowTile<T> x;
    x.load(p, begin);
    float y[kTiles][kOut][4];
#pragma unroll
    for (int t = 0; t < kOut; ++t)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int e = 0; e < 4; ++e) y[tile][t][e] = weights.out_bias[first_column() + t * 2 + e % 2];
#pragma unroll 1
    for (int chunk = 0; chunk < p.inner / kChunk; ++chunk) {
      std::uint32_t h[kTiles][4];
      make_chunk<T, kGated, Act>(p, weights, x, chunk, h);
#pragma unroll
      for (int t = 0; t < kOut; ++t) {
        const uint2 b = weights.out[(chunk * kOut + t) * 32 + lane()];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) multiply_add<T>(y[tile][t], h[tile], b.x, b.y);
      }
    }
    store_rows<T>(p, begin, y);
  }
}

// Whether the card can run it, which the first call finds out.
template <class T, bool kGated, class Act>
bool launch(const Context& context, const Operands& p) {
  int card = 0, processors = 0, most = 0;
  check_cuda(cudaGetDevice(&card), "a card");
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, card), "a card");
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, card), "a card");
  const std::size_t bytes = shared_bytes(p.inner, p.columns);
  if (bytes > static_cast<std::size_t>(most)) return false;
  const auto kernel = feed_forward_kernel<T, kGated, Act>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
             "a feed-forward layer");
  const std::int64_t wanted = (p.rows + kWarps * kRows - 1) / (kWarps * kRows);
  kernel<<<static_cast<unsigned>(std::min<std::int64_t>(wanted, processors)), kThreadsOfBlock, bytes,
           stream_of(context)>>>(p);
  check_cuda(cudaGetLastError(), "a feed-forward layer");
  return true;
}

template <class T>
bool launch(const Context& context, const kernels::FeedForward& io, const Operands& p) {
  if (io.gated) return io.activation == Activation::silu && launch<T, true, QuickSilu>(context, p);
  if (io.activation == Activation::gelu) return launch<T, false, policy::Gelu>(context, p);
  return io.activation == Activation::relu && launch<T, false, policy::Relu>(context, p);
}

bool is_aligned(const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0; }

}  // namespace

template <>
Tensor kernels::feed_forward<Device::cuda>(const Context& context, const FeedForward& io) {
  const DType dtype = io.x.dtype();
  const std::int64_t inner = io.out.dim(0);
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  if (!narrow || io.x.dim(1) != kWidth || io.x.dim(0) == 0 || inner == 0 || inner % kChunk != 0 || inner > 1024 ||
      !is_aligned(io.x))
    return {};
  const Tensor y = Tensor::empty(context, io.x.shape(), dtype);
  const auto floats = [](const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; };
  const Operands p{io.x.raw(),
                   y.raw(),
                   floats(io.in),
                   floats(io.in_bias),
                   floats(io.out),
                   floats(io.out_bias),
                   io.x.dim(0),
                   static_cast<int>(inner),
                   static_cast<int>(io.in.dim(1))};
  const bool ran = dtype == DType::bf16 ? launch<bfloat16>(context, io, p) : launch<float16>(context, io, p);
  return ran ? y : Tensor();
}

}  // namespace fovea
