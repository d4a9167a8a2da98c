#include "core/wide.h"
#include "gemm/cuda/lt_product.h"
#include "gemm/cuda/narrow_product.h"
#include "gemm/cuda/small_product.h"
#include "gemm/gemm_kernels.h"
#include "tensor/cuda/map.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// One of the last two axes dense, the other at least as far apart as it is long.
bool is_matrix(const Tensor& t) {
  const std::int64_t rows = t.dim(-2), columns = t.dim(-1);
  return (t.stride(-1) == 1 && t.stride(-2) >= columns) || (t.stride(-2) == 1 && t.stride(-1) >= rows);
}

Tensor as_matrix(const Context& context, const Tensor& t) {
  return is_matrix(t) ? t : t.clone(context, Lifetime::scratch);
}

struct BiasOnly {
  bool relu;
  template <class R>
  __device__ R operator()(R bias) const {
    return relu && !(bias > 0) ? R(0) : bias;
  }
};

// A sum over nothing.
void fill_empty(const Context& context, const kernels::Product& io) {
  if (io.epilogue.accumulate) return;
  if (io.c.dtype() == DType::f64)
    map<double>(context, BiasOnly{io.epilogue.relu}, io.c, io.epilogue.bias);
  else
    map<float>(context, BiasOnly{io.epilogue.relu}, io.c, io.epilogue.bias);
}

}  // namespace

// b shared by all of a: one product of all rows. Else a product for each of the leading axes' indices.
template <>
void kernels::multiply<Device::cuda>(const Context& context, const Product& io) {
  const auto& [a, b, c, epilogue] = io;
  if (a.dim(-1) == 0) return fill_empty(context, io);
  const bool shared = b.rank() == 2;
  Tensor left = a;
  if (shared && a.rank() != 2) left = a.contiguous(context).reshape({a.numel() / a.dim(-1), a.dim(-1)});
  const Tensor out = shared ? c.reshape({left.dim(0), c.dim(-1)}) : c;
  const Product product{left, b, out, epilogue};
  if (gemm::multiply_small(context, product) || gemm::multiply_narrow(context, product)) return;
  gemm::multiply_lt(context, {as_matrix(context, left), as_matrix(context, b.to(context, a.dtype())), out, epilogue});
}

}  // namespace fovea
