#pragma once

#include "fovea/tensor.h"

// Matrix products: one function over oneDNN (f32, bf16, f16) and a plain blocked loop (f64, which only tests use).
namespace fovea::gemm {

// What happens to the product on its way out. Both cost nothing: they are done while it is still in registers.
struct Epilogue {
  Tensor bias;  // (n), in the wide type, on a card also in that of c; undefined: none
  bool relu = false;
  bool accumulate = false;  // c += a b; excludes the other two
};

// c = a b for a (..., m, k), b (..., k, n) and c (..., m, n); b may also be one (k, n) for all of a. Transposes are
// views:
//   y = x W, dX = dY W^T, dW += X^T dY.
// b is converted to the dtype of a. c is dense, in the dtype of a or in f32. Sums are f32 (f64 for f64).
// oneDNN may divide the sum over k of a single product by the number of threads: bits can differ between thread
// counts. In a batch of f32 products each is made by one thread, and they do not.
void multiply(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c, const Epilogue& epilogue = {});

// The same into a fresh tensor in the dtype of a.
Tensor multiply(const Context& context, const Tensor& a, const Tensor& b, const Epilogue& epilogue = {});

}  // namespace fovea::gemm
