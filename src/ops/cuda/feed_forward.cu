#include "ops/feed_forward_kernels.h"

#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "ops/cuda/quick.cuh"

// The feed-forward layer of a narrow stack in one pass: the weights stay in shared memory, a warp takes 32 rows at a
// time, and what lies between the products never leaves the registers.
namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr int kWidth = 64, kChunk = 16, kWarps = 12, kThreadsOfBlock = 32 * kWarps;
constexpr int kTiles = 2, kRows = 16 * kTiles;          // of a warp
constexpr int kSteps = kWidth / 16, kOut = kWidth / 8;  // steps of the first product; tiles of the second

// As kernels::FeedForwardNorm has it; without a branch x is read as it is.
struct RowNorm {
  NormKind kind;
  float eps;
  const void* branch;
  void* sum;
  const float *gain, *bias;  // may be null
};

struct Operands {
  RowNorm norm;
  const void* x;
  void* y;
  const float *in, *in_bias, *out, *out_bias;  // biases may be null
  std::int64_t rows;
  int inner, columns;  // columns of the first product: inner, or twice that
};

// Second operands, as a lane reads them: 8 bytes for each step and tile.
struct Shared {
  uint2 *in, *out;
  float *in_bias, *out_bias, *gain, *shift;

  __device__ Shared(std::byte* at, const Operands& p)
      : in(reinterpret_cast<uint2*>(at)),
        out(in + kSteps * p.columns / 8 * 32),
        in_bias(reinterpret_cast<float*>(out + p.inner / kChunk * kOut * 32)),
        out_bias(in_bias + p.columns),
        gain(out_bias + kWidth),
        shift(gain + kWidth) {}
};

std::size_t shared_bytes(int inner, int columns) {
  return (kSteps * static_cast<std::size_t>(columns) / 8 + static_cast<std::size_t>(inner) / kChunk * kOut) * 32 *
             sizeof(uint2) +
         (static_cast<std::size_t>(columns) + 3 * kWidth) * sizeof(float);
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
  for (int c = static_cast<int>(threadIdx.x); c < kWidth; c += kThreadsOfBlock) {
    to.out_bias[c] = p.out_bias == nullptr ? 0.0f : p.out_bias[c];
    to.gain[c] = p.norm.gain == nullptr ? 1.0f : p.norm.gain[c];
    to.shift[c] = p.norm.bias == nullptr ? 0.0f : p.norm.bias[c];
  }
}

// What a lane has of a row, 32 bytes; zeros behind the last row.
using Words = std::uint32_t[8];

__device__ inline void load_words(const Operands& p, const void* from, std::int64_t row, Words& words) {
  uint4 low{}, high{};
  if (row < p.rows) {
    const auto* const at =
        reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(from) + row * kWidth + first_column());
    low = at[0];
    high = at[1];
  }
  const Words both = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i] = both[i];
}

__device__ inline void store_words(const Operands& p, void* to, std::int64_t row, const Words& words) {
  if (row >= p.rows) return;
  auto* const at = reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(to) + row * kWidth + first_column());
  at[0] = make_uint4(words[0], words[1], words[2], words[3]);
  at[1] = make_uint4(words[4], words[5], words[6], words[7]);
}

template <class T>
__device__ inline float2 pair_of(std::uint32_t word) {
  if constexpr (std::is_same_v<T, bfloat16>)
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
  else
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
}

// The factor of a row of the sum of whose squares this is.
__device__ inline float factor_of(const RowNorm& norm, float squares) {
  const float power = squares / kWidth;
  return norm.kind == NormKind::rms_a ? 1.0f / (sqrtf(power) + norm.eps) : 1.0f / sqrtf(power + norm.eps);
}

// Words of x become those of the norm of x + branch; the sum is stored. Four lanes share a row.
template <class T>
__device__ inline void add_and_normalize(const Operands& p, const Shared& from, std::int64_t row, Words& words) {
  Words other;
  load_words(p, p.norm.branch, row, other);
  float2 v[8];
  float mean = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float2 x = pair_of<T>(words[i]), more = pair_of<T>(other[i]);
    words[i] = pack<T>(x.x + more.x, x.y + more.y);
    v[i] = pair_of<T>(words[i]);
    mean += v[i].x + v[i].y;
  }
  store_words(p, p.norm.sum, row, words);
  mean = p.norm.kind == NormKind::layer ? quad_sum(mean) / kWidth : 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    v[i] = {v[i].x - mean, v[i].y - mean};
    squares += v[i].x * v[i].x + v[i].y * v[i].y;
  }
  const float factor = factor_of(p.norm, quad_sum(squares));
  const float *const gain = from.gain + first_column(), *const shift = from.shift + first_column();
#pragma unroll
  for (int i = 0; i < 8; ++i)
    words[i] =
        pack<T>(v[i].x * factor * gain[2 * i] + shift[2 * i], v[i].y * factor * gain[2 * i + 1] + shift[2 * i + 1]);
}

// A warp's 32 rows as first operands of the steps.
template <class T>
struct RowTile {
  std::uint32_t a[kTiles][kSteps][4];

  __device__ void load(const Operands& p, const Shared& from, std::int64_t begin) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t row = begin + tile * 16 + half * 8 + lane() / 4;
        Words words;
        load_words(p, p.x, row, words);
        if (p.norm.branch != nullptr) add_and_normalize<T>(p, from, row, words);
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
      Words words;
#pragma unroll
      for (int t = 0; t < kOut; ++t) words[t] = pack<T>(y[tile][t][2 * half], y[tile][t][2 * half + 1]);
      store_words(p, p.y, begin + tile * 16 + half * 8 + lane() / 4, words);
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
    x.load(p, weights, begin);
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
  if (io.activation == Activation::gelu) return launch<T, false, QuickGelu>(context, p);
  return io.activation == Activation::relu && launch<T, false, policy::Relu>(context, p);
}

bool is_aligned(const Tensor& t) { return !t.defined() || reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0; }

}  // namespace

template <>
Tensor kernels::feed_forward<Device::cuda>(const Context& context, const FeedForward& io) {
  const DType dtype = io.x.dtype();
  const std::int64_t inner = io.out.dim(0);
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  if (!narrow || io.x.dim(1) != kWidth || io.x.dim(0) == 0 || inner == 0 || inner % kChunk != 0 || inner > 1024 ||
      !is_aligned(io.x) || !is_aligned(io.norm.branch))
    return {};
  const Tensor y = Tensor::empty(context, io.x.shape(), dtype);
  const auto floats = [](const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; };
  const RowNorm norm{io.norm.kind,         static_cast<float>(io.norm.eps),
                     io.norm.branch.raw(), io.norm.sum.raw(),
                     floats(io.norm.gain), floats(io.norm.bias)};
  const Operands p{
      norm,           io.x.raw(),          y.raw(),     floats(io.in),           floats(io.in_bias),
      floats(io.out), floats(io.out_bias), io.x.dim(0), static_cast<int>(inner), static_cast<int>(io.in.dim(1))};
  const bool ran = dtype == DType::bf16 ? launch<bfloat16>(context, io, p) : launch<float16>(context, io, p);
  return ran ? y : Tensor();
}

}  // namespace fovea
