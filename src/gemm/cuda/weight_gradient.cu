#include "gemm/cuda/row_sums.cuh"
#include "gemm/weight_gradient_kernels.h"

namespace fovea {
namespace {

// The sums of all segments, where they are wanted.
struct PutGradient {
  float *dw, *db;  // db may be null
  std::int64_t count;
  bool adds;
  __device__ void operator()(std::int64_t i, float sum) const {
    if (i < count)
      dw[i] = adds ? dw[i] + sum : sum;
    else if (db != nullptr)
      db[i - count] = sum;
  }
};

bool can_sum(const kernels::WeightGradient& io) {
  return (io.x.dtype() == DType::bf16 || io.x.dtype() == DType::f16) && io.dz.dtype() == io.x.dtype() &&
         io.dw.dtype() == DType::f32 && gemm::fits(io.x.dim(1), io.dz.dim(1)) && io.x.dim(0) >= gemm::kLeastRows &&
         io.x.is_contiguous() && io.dz.is_contiguous() && io.dw.is_contiguous() && gemm::is_aligned(io.x) &&
         gemm::is_aligned(io.dz);
}

}  // namespace

template <>
Tensor kernels::weight_gradient<Device::cuda>(const Context& context, const WeightGradient& io) {
  if (!can_sum(io)) return {};
  const std::int64_t in = io.x.dim(1), out = io.dz.dim(1);
  const gemm::Operands p{io.x.raw(),           io.dz.raw(),           nullptr, io.x.dim(0), 0,
                         static_cast<int>(in), static_cast<int>(out), 1};
  const PutGradient put{io.dw.data<float>(), device::pointer<float>(io.db), in * out, io.adds};
  const bool done = io.x.dtype() == DType::bf16 ? gemm::sum_rows<device::bfloat16, gemm::MatrixRows>(context, p, put)
                                                : gemm::sum_rows<device::float16, gemm::MatrixRows>(context, p, put);
  return done ? io.dw : Tensor();
}

}  // namespace fovea
