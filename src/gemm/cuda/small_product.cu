#include "gemm/cuda/small_product.h"

#include "core/wide.h"
#include "tensor/cuda/loops.cuh"

namespace fovea::gemm {
namespace {

using namespace device;  // NOLINT

template <class R>
struct Matrix {
  Elements<R> of;
  std::int64_t row, column;  // strides

  explicit Matrix(const Tensor& t) : of(elements<R>(t)), row(t.stride(0)), column(t.stride(1)) {}
  __device__ R operator()(std::int64_t i, std::int64_t j) const { return of[i * row + j * column]; }
};

// A warp for each number: its lanes take every 32nd term.
template <class R>
struct Dots {
  Matrix<R> a, b;
  Elements<R> c, bias;
  std::int64_t n, k;
  bool relu, accumulate;

  template <class Group>
  __device__ void operator()(const Group& group) const {
    const std::int64_t i = group.row / n, j = group.row % n;
    R sum(0);
#pragma unroll 4
    for (std::int64_t t = group.lane; t < k; t += group.lanes) sum += a(i, t) * b(t, j);
    sum = group.sum(sum);
    if (group.lane != 0) return;
    if (bias.defined()) sum += bias[j];
    if (relu && sum < 0) sum = R(0);
    c.put(group.row, accumulate ? c[group.row] + sum : sum);
  }
};

template <class R>
void run(const Context& context, const kernels::Product& io) {
  const std::int64_t m = io.c.dim(0), n = io.c.dim(1);
  rows(context, m * n, 0,
       Dots<R>{Matrix<R>(io.a), Matrix<R>(io.b), elements<R>(io.c), elements<R>(io.epilogue.bias), n, io.a.dim(1),
               io.epilogue.relu, io.epilogue.accumulate});
}

}  // namespace

bool multiply_small(const Context& context, const kernels::Product& io) {
  constexpr std::int64_t kNumbers = 1 << 14, kMatrix = 1 << 15, kTerms = 512;
  if (io.a.rank() != 2 || io.b.rank() != 2 || io.a.dim(0) * io.b.dim(1) > kNumbers || io.a.dim(1) > kTerms ||
      io.b.numel() > kMatrix || context.tf32())
    return false;
  visit_wide(io.a.dtype(), [&]<class R>() { run<R>(context, io); });
  return true;
}

}  // namespace fovea::gemm
