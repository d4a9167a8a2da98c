#pragma once

#include "gemm/gemm.h"

namespace fovea::kernels {

// As gemm::multiply says. Shapes agree and c is not empty.
struct Product {
  Tensor a, b, c;
  gemm::Epilogue epilogue;
};
template <Device>
void multiply(const Context& context, const Product& io);

// Seconds that one square product of n rows takes.
template <Device>
double time_product(const Context& context, std::int64_t n);

// Name and version of what makes the products.
template <Device>
std::string product_library();

}  // namespace fovea::kernels
