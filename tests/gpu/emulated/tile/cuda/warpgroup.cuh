#pragma once

#include "core/cuda/mma.cuh"

// src/tile/cuda/warpgroup.cuh for the emulated card. Products are done at once; operands are found as their
// descriptions say.
namespace fovea::tile::cuda {

using namespace device;  // NOLINT: what the engines on a card share

inline void begin_products() {}
inline void commit_products() {}
template <int kOpen>
void await_products() {}
inline void show_to_tensor_cores() {}

// Element (row, column) of an operand in shared memory: groups of 8 rows, swizzled as the hardware does.
template <class T>
float described(std::uint64_t operand, int row, int column) {
  const auto base = static_cast<std::uint32_t>(operand & 0x3fff) << 4,
             next = static_cast<std::uint32_t>(operand >> 32 & 0x3fff) << 4;
  const bool wide = operand >> 62 == 1;  // rows of 128 bytes, else of 64
  const std::uint32_t at = base + static_cast<std::uint32_t>(row / 8) * next +
                           static_cast<std::uint32_t>(row % 8) * (wide ? 128 : 64) +
                           static_cast<std::uint32_t>(column) * 2;
  std::uint16_t half = 0;
  std::memcpy(&half, emulated::shared_at(at ^ (at >> 7 & (wide ? 7 : 3)) << 4, 2), 2);
  return half_of<T>(half, 0);
}

template <class T, int kFirst, int kColumns>
void multiply_tiles(float (&d)[kColumns][4], std::uint64_t a, std::uint64_t b, int adds) {
  for (int n = 0; n < 8; ++n)
    for (int e = 0; e < 4; ++e) {
      const int row = warp() % 4 * 16 + row_of(e), column = 8 * n + column_of(e);
      float sum = adds != 0 ? d[kFirst + n][e] : 0;
      for (int k = 0; k < 16; ++k) sum += described<T>(a, row, k) * described<T>(b, column, k);
      d[kFirst + n][e] = sum;
    }
}

template <class T, int kPanel, int kFirst, int kColumns>
void multiply_rows(float (&d)[kColumns][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  const emulated::Words* all = emulated::exchange({{a[0], a[1], a[2], a[3]}});
  for (int n = 0; n < kPanel / 8; ++n)
    for (int e = 0; e < 4; ++e)
      for (int k = 0; k < 16; ++k)
        d[kFirst + n][e] += first_operand<T>(all, row_of(e), k) * described<T>(b, k, 8 * n + column_of(e));
}

}  // namespace fovea::tile::cuda
