#pragma once

#include <cstddef>

#include "simd/prefetch.h"

namespace fovea {

// Widths of vector operands are padded to this many elements on every instruction set: one cache line.
template <class T>
inline constexpr std::size_t kPad = 64 / sizeof(T);

template <class T>
constexpr std::size_t padded(std::size_t n) {
  return (n + kPad<T> - 1) / kPad<T> * kPad<T>;
}

// How element (i, p) of A is addressed: a[i * lda + p] or a[p * lda + i].
enum class Order { rows, columns };

// Operands of C[m x n] (+)= A[m x k] B[k x n]; see product-inl.h. n is a multiple of kPad (rows of B and C are padded,
// and what stands in the padding of B must be finite where that of C is read again). C overlaps neither A nor B.
// Element: what A and B hold; T itself, or several values that are multiplied and summed at once, as pairs of bf16.
template <class T, class Element = T>
struct Product {
  const Element* a;
  std::size_t lda;
  const Element* b;
  std::size_t ldb;
  T* c;
  std::size_t ldc;
  std::size_t m, n, k;
  Prefetch* next = nullptr;  // fetched a little at every register tile
};

}  // namespace fovea
