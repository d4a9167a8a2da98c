#include "gemm/packed_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr std::int64_t kPanel = gemm::PackedPanels::kPanel;
constexpr float kLargest = 127.0f;

// The weight of an input and an output as it is kept.
template <gemm::Form kForm>
struct Kept {
  void* data;
  std::int64_t in;

  __device__ std::int64_t line(std::int64_t k, std::int64_t j) const { return (j / kPanel * in + k) * kPanel; }
  __device__ void* place(std::int64_t k, std::int64_t j) const {
    const std::int64_t at = line(k, j), o = j % kPanel;
    if constexpr (kForm == gemm::Form::f32) return static_cast<float*>(data) + at + o;
    if constexpr (kForm == gemm::Form::bf16) return static_cast<__nv_bfloat16*>(data) + at + o % 16 * 2 + o / 16;
    return static_cast<std::int8_t*>(data) + at + o;
  }
  __device__ float load(std::int64_t k, std::int64_t j) const {
    if constexpr (kForm == gemm::Form::f32) return *static_cast<const float*>(place(k, j));
    if constexpr (kForm == gemm::Form::bf16) return __bfloat162float(*static_cast<const __nv_bfloat16*>(place(k, j)));
    return static_cast<float>(*static_cast<const std::int8_t*>(place(k, j)));
  }
  __device__ void store(std::int64_t k, std::int64_t j, float value) const {
    if constexpr (kForm == gemm::Form::f32) *static_cast<float*>(place(k, j)) = value;
    if constexpr (kForm == gemm::Form::bf16) *static_cast<__nv_bfloat16*>(place(k, j)) = __float2bfloat16_rn(value);
    if constexpr (kForm == gemm::Form::i8)
      *static_cast<std::int8_t*>(place(k, j)) = static_cast<std::int8_t>(lrintf(value));
  }
};

// A warp for each output.
template <gemm::Form kForm>
void pack_as(const Context& context, const kernels::PackTensors& io) {
  const Kept<kForm> to{io.to.data.raw(), io.to.in};
  const std::int64_t in = io.to.in, out = io.to.out, row = io.weight.stride(0), column = io.weight.stride(1);
  const float* const from = io.weight.data<float>();
  float* const scales = pointer<float>(io.to.scales);
  rows(context, io.to.panels() * kPanel, 0, [=] __device__(const auto& g) {
    const std::int64_t j = g.row;
    float largest = 0.0f, broken = 0.0f;  // not a number where a weight is none
    for (std::int64_t k = g.lane; kForm == gemm::Form::i8 && j < out && k < in; k += g.lanes) {
      const float value = from[k * row + j * column];
      largest = fmaxf(largest, fabsf(value));
      broken += 0.0f * value;
    }
    largest = g.max(largest);
    broken = g.sum(broken);
    if (kForm == gemm::Form::i8 && g.lane == 0) scales[j] = largest / kLargest + broken;
    const float factor = kForm != gemm::Form::i8 ? 1.0f : largest > 0.0f ? kLargest / largest : 0.0f;
    for (std::int64_t k = g.lane; k < in; k += g.lanes)
      to.store(k, j, j < out ? from[k * row + j * column] * factor : 0.0f);
  });
}

constexpr int kWarps = kThreads / 32;

struct PanelProduct {
  std::int64_t rows, in, out;
  const float *x, *bias, *scales;
  float* y;
};

// A block makes a panel of outputs, a lane each; its warps share the inputs and are joined in order.
template <gemm::Form kForm>
__global__ void panel_kernel(PanelProduct p, Kept<kForm> weight) {
  constexpr int kRows = gemm::kPackedRows;
  __shared__ float sums[kWarps][kRows][kPanel];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t j = std::int64_t{blockIdx.x} * kPanel + lane;
  float sum[kRows] = {};
  for (std::int64_t k = warp; k < p.in; k += kWarps) {
    const float w = weight.load(k, j);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (r < p.rows) sum[r] += w * p.x[r * p.in + k];
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[warp][r][lane] = sum[r];
  __syncthreads();
  for (std::int64_t r = warp; r < p.rows && j < p.out; r += kWarps) {
    float all = sums[0][r][lane];
    for (int w = 1; w < kWarps; ++w) all += sums[w][r][lane];
    p.y[r * p.out + j] = all * (p.scales != nullptr ? p.scales[j] : 1.0f) + (p.bias != nullptr ? p.bias[j] : 0.0f);
  }
}

template <gemm::Form kForm>
void multiply_as(const Context& context, const kernels::PackedProduct& io) {
  const PanelProduct p{io.x.dim(0),
                       io.weight.in,
                       io.weight.out,
                       io.x.data<float>(),
                       pointer<float>(io.bias),
                       pointer<float>(io.weight.scales),
                       io.y.data<float>()};
  if (p.rows == 0 || p.out == 0) return;
  panel_kernel<<<static_cast<unsigned>(io.weight.panels()), kThreads, 0, stream_of(context)>>>(
      p, Kept<kForm>{io.weight.data.raw(), io.weight.in});
  check_cuda(cudaGetLastError(), "a product of packed weights");
}

}  // namespace

template <>
void kernels::pack<Device::cuda>(const Context& context, const PackTensors& io) {
  switch (io.to.form) {
    case gemm::Form::f32: return pack_as<gemm::Form::f32>(context, io);
    case gemm::Form::bf16: return pack_as<gemm::Form::bf16>(context, io);
    case gemm::Form::i8: return pack_as<gemm::Form::i8>(context, io);
  }
}

template <>
void kernels::multiply_packed<Device::cuda>(const Context& context, const PackedProduct& io) {
  switch (io.weight.form) {
    case gemm::Form::f32: return multiply_as<gemm::Form::f32>(context, io);
    case gemm::Form::bf16: return multiply_as<gemm::Form::bf16>(context, io);
    case gemm::Form::i8: return multiply_as<gemm::Form::i8>(context, io);
  }
}

}  // namespace fovea
