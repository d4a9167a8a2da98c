#pragma once

#include <sys/mman.h>

#include <memory>
#include <new>
#include <vector>

#include "fovea/tensor.h"

namespace fovea::testing {

// Zeros of any size: pages that nobody writes take no memory, so tensors of more elements than 32 bits count are cheap
// as long as most of them stay 0.
inline std::shared_ptr<void> sparse_memory(std::size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return {pages, [bytes](void* at) { munmap(at, bytes); }};
}

inline Tensor sparse_zeros(const Shape& shape, DType dtype) {
  const std::shared_ptr<void> pages = sparse_memory(static_cast<std::size_t>(shape.numel()) * size_of(dtype));
  return Tensor::wrap(pages.get(), shape, dtype, pages);
}

// The numbers of x, each entry of axis 0 more than 2^31 elements behind the one before it.
inline Tensor far_apart(const Tensor& x) {
  constexpr std::int64_t kStep = (std::int64_t{1} << 31) + 4096;
  const Shape shape = x.shape();
  const std::shared_ptr<void> pages =
      sparse_memory(static_cast<std::size_t>((shape[0] - 1) * kStep + x.numel()) * size_of(x.dtype()));
  std::vector<std::int64_t> strides{kStep};
  for (int axis = 1; axis < shape.rank(); ++axis) strides.push_back(x.stride(axis));
  const Tensor out = Tensor::wrap(pages.get(), shape, strides, x.dtype(), pages);
  out.copy_from(x);
  return out;
}

}  // namespace fovea::testing
