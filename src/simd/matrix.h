#pragma once

#include <cstddef>

namespace fovea {

// Rows of a matrix in scratch, `ld` elements apart.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t ld = 0;

  T* row(std::size_t i) const { return data + i * ld; }
  operator Matrix<const T>() const { return {data, ld}; }
};

}  // namespace fovea
