#pragma once

#include "core/cuda/ptx.cuh"

// Tiles in shared memory and their fragments; the instructions are those of ptx.cuh.
namespace fovea::device {

inline constexpr int kMmaThreads = 128;

__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

// A tile of rows of kWidth halves in shared memory. The 16-byte pieces of a row are exchanged by the row's number, so
// that eight rows' pieces of one column lie in different banks; of rows of 64 bytes two stand side by side anyway.
template <int kWidth>
struct SharedTile {
  static constexpr int kPieces = kWidth / 8;
  static constexpr int row_bytes() { return kWidth * 2; }
  static constexpr int bytes(int rows) { return rows * row_bytes(); }
  std::uint32_t base;

  __device__ __forceinline__ static int swizzle(int row) { return kPieces >= 8 ? row % 8 : row / 2 % 4; }
  __device__ __forceinline__ std::uint32_t at(int row, int piece) const {
    return base + static_cast<std::uint32_t>((row * kPieces + (piece ^ swizzle(row))) * 16);
  }
  // First operand: rows [row, row + 16), columns [16 step, 16 step + 16).
  __device__ __forceinline__ void own(std::uint32_t (&a)[4], int row, int step) const {
    load_matrices(a, at(row + lane() % 16, 2 * step + lane() / 16));
  }
  // Second operand of a product with the tile's transpose: two fragments, of rows [row, row + 8) and the next 8.
  __device__ __forceinline__ void across(std::uint32_t (&b)[4], int row, int step) const {
    load_matrices(b, at(row + lane() % 8 + lane() / 16 * 8, 2 * step + lane() / 8 % 2));
  }
  // Second operand of a product with the tile: rows [row, row + 16), two fragments of columns [16 step, 16 step + 16).
  __device__ __forceinline__ void along(std::uint32_t (&b)[4], int row, int step) const {
    load_transposed(b, at(row + lane() % 16, 2 * step + lane() / 16));
  }

  // Starts to copy `count` of kRows rows of `width` halves; the others become zero.
  template <int kRows, int kThreads = kMmaThreads, class T>
  __device__ __forceinline__ void fetch(const T* from, std::int64_t stride, int count, int width) const {
    constexpr int kStep = kThreads / kPieces;
    const int piece = static_cast<int>(threadIdx.x) % kPieces, first = static_cast<int>(threadIdx.x) / kPieces;
    const T* source = from + first * stride + piece * 8;
    const int rows = piece * 8 < width ? count : 0;
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i, source += stride * kStep) {
      const bool exists = first + i * kStep < rows;
      copy16(at(first + i * kStep, piece), exists ? source : from, exists);
    }
  }
  // Have this thread's pieces of `rows` rows anything that is not finite?
  template <class T, int kThreads = kMmaThreads>
  __device__ __forceinline__ bool is_strange_in(int rows) const {
    bool strange = false;
#pragma unroll 1
    for (int e = static_cast<int>(threadIdx.x); e < rows * kPieces; e += kThreads) {
      std::uint32_t r[4];
      load_shared(r, base + static_cast<std::uint32_t>(e * 16));
      for (std::uint32_t pair : r) strange |= device::is_strange<T>(pair);
    }
    return strange;
  }
};

// A tile as warpgroups read it: panels of up to 64 columns, one after the other.
template <int kWidth, int kRows = 64>
struct PanelTile {
  static constexpr int kColumns = kWidth < 64 ? kWidth : 64, kPanels = kWidth / kColumns;
  using Panel = SharedTile<kColumns>;
  static constexpr int bytes(int rows = kRows) { return kPanels * Panel::bytes(rows); }
  std::uint32_t base;

  __device__ __forceinline__ Panel panel(int p) const {
    return {base + static_cast<std::uint32_t>(p * Panel::bytes(kRows))};
  }
  template <int, int kThreads = kMmaThreads, class T>  // all rows
  __device__ __forceinline__ void fetch(const T* from, std::int64_t stride, int count, int width) const {
#pragma unroll
    for (int p = 0; p < kPanels; ++p)
      panel(p).template fetch<kRows, kThreads>(from + kColumns * p, stride, count, width - kColumns * p);
  }
  template <class T, int kThreads = kMmaThreads>
  __device__ __forceinline__ bool is_strange_in(int rows) const {
    bool strange = false;
#pragma unroll
    for (int p = 0; p < kPanels; ++p) strange |= panel(p).template is_strange_in<T, kThreads>(rows);
    return strange;
  }
};

// The rows of a fragment of 16 x 8 that a lane has: element e is row row_of(e), column column_of(e).
__device__ __forceinline__ int row_of(int e) { return lane() / 4 + e / 2 * 8; }
__device__ __forceinline__ int column_of(int e) { return lane() % 4 * 2 + e % 2; }

// Sum and largest of the four lanes that share a row; the same bits in all.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

}  // namespace fovea::device
