#include "gemm/cuda/one_hot.h"

#include "gemm/cuda/row_sums.cuh"

namespace fovea::gemm {
namespace {

struct AddToTable {
  float* table;
  std::int64_t count;
  __device__ void operator()(std::int64_t i, float sum) const {
    if (i < count) table[i] += sum;
  }
};

}  // namespace

bool add_one_hot(const Context& context, const OneHotSum& io) {
  const std::int64_t numbers = io.table.dim(0), width = io.g.dim(1), in = (numbers + kSide - 1) / kSide * kSide;
  const bool narrow = io.g.dtype() == DType::bf16 || io.g.dtype() == DType::f16;
  if (!narrow || io.table.dtype() != DType::f32 || !fits(in, width) || io.g.dim(0) < kLeastRows || !is_aligned(io.g))
    return false;
  const Operands p{io.numbers.raw(),        io.g.raw(), nullptr, io.g.dim(0), 0, static_cast<int>(in),
                   static_cast<int>(width), 1};
  const AddToTable put{io.table.data<float>(), numbers * width};
  return io.g.dtype() == DType::bf16 ? sum_rows<bfloat16, OneHotRows>(context, p, put)
                                     : sum_rows<float16, OneHotRows>(context, p, put);
}

}  // namespace fovea::gemm
