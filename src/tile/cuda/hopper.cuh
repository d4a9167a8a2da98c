#pragma once

#include "tile/cuda/warpgroup.cuh"

// What the kernels of warpgroups share: operands, products of panels, results.
namespace fovea::tile::cuda {

// An operand in shared memory, rows of kPanel halves, 8 of them after 8.
template <int kPanel>
__device__ __forceinline__ std::uint64_t describe(std::uint32_t address) {
  static_assert(kPanel == 32 || kPanel == 64);
  constexpr std::uint64_t kSwizzle = std::uint64_t{kPanel == 64 ? 1 : 2} << 62,
                          kNext = std::uint64_t{SharedTile<kPanel>::bytes(8) / 16} << 32,
                          kUnused = std::uint64_t{1} << 16;
  return kSwizzle | kNext | kUnused | (address & 0x3ffff) >> 4;
}

// Keeps the compiler, which takes results for ready as soon as they are asked for, from using them before this point.
template <int kColumns>
__device__ __forceinline__ void settle(float (&d)[kColumns][4]) {
#pragma unroll
  for (auto& fragment : d)
#pragma unroll
    for (float& x : fragment) keep_until_here(x);
}
template <int kColumns>
__device__ __forceinline__ void finish_products(float (&d)[kColumns][4]) {
  commit_products();
  await_products<0>();
  settle(d);
}

// d (+)= a b^T of two tiles of kPanel columns, a's rows from `a` on.
template <class T, int kPanel>
__device__ __forceinline__ void multiply_panel(float (&d)[8][4], std::uint32_t a, std::uint32_t b, bool adds) {
#pragma unroll
  for (std::uint32_t step = 0; step < kPanel / 16; ++step)
    multiply_tiles<T, 0>(d, describe<kPanel>(a + 32 * step), describe<kPanel>(b + 32 * step), adds || step > 0);
}

// A warp's results of 64 columns as first operands of the next product.
template <class T>
__device__ __forceinline__ void pack_operands(const float (&s)[8][4], std::uint32_t (&a)[4][4]) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[step][i] = pack<T>(s[2 * step + i / 2][i % 2 * 2], s[2 * step + i / 2][i % 2 * 2 + 1]);
}

// d += a b for the 64 rows of a tile of kPanel columns; columns [8 kFirst, 8 kFirst + kPanel) of d.
template <class T, int kPanel, int kFirst, int kColumns>
__device__ __forceinline__ void add_panel(float (&d)[kColumns][4], const std::uint32_t (&a)[4][4], std::uint32_t b) {
#pragma unroll
  for (std::uint32_t step = 0; step < 4; ++step)
    multiply_rows<T, kPanel, kFirst>(d, a[step], describe<kPanel>(b + step * SharedTile<kPanel>::bytes(16)));
}
template <class T, int kWidth>
__device__ __forceinline__ void add_tile(float (&d)[kWidth / 8][4], const std::uint32_t (&a)[4][4],
                                         const PanelTile<kWidth>& b) {
  using Tile = PanelTile<kWidth>;
  add_panel<T, Tile::kColumns, 0>(d, a, b.panel(0).base);
  if constexpr (Tile::kPanels == 2) add_panel<T, Tile::kColumns, 8>(d, a, b.panel(1).base);
}

}  // namespace fovea::tile::cuda
