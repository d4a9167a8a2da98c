#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// Tensor-core products of 16 x 8 x 16, tiles in shared memory, copies that run beside the arithmetic (sm_80 and later).
//
// Fragments: lane l of a warp holds rows l / 4 and l / 4 + 8 of a 16-row operand, columns 2 (l % 4) and the next; b has
// column l / 4. What a product leaves is what the next one takes as its first operand.
namespace fovea::device {

using bfloat16 = __nv_bfloat16;
using float16 = __half;

// c += a b
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  if constexpr (std::is_same_v<T, bfloat16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t bits;
  if constexpr (std::is_same_v<T, bfloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// 2^x in one instruction, within 2 units; 0 for -infinity.
__device__ __forceinline__ float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Has a pair of halves an infinity or a NaN?
template <class T>
__device__ __forceinline__ bool is_strange(std::uint32_t pair) {
  constexpr std::uint32_t kExponent = std::is_same_v<T, bfloat16> ? 0x7f807f80u : 0x7c007c00u;
  return __vcmpeq2(pair & kExponent, kExponent) != 0;
}

__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// 16 bytes, or 4.
__device__ __forceinline__ void load_shared(std::uint32_t (&r)[4], std::uint32_t at) {
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void store_shared(const std::uint32_t (&r)[4], std::uint32_t at) {
  asm volatile("st.shared.v4.u32 [%4], {%0,%1,%2,%3};" ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(at)
               : "memory");
}
__device__ __forceinline__ std::uint32_t load_shared(std::uint32_t at) {
  std::uint32_t r;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(at));
  return r;
}
__device__ __forceinline__ void store_shared(std::uint32_t r, std::uint32_t at) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(r) : "memory");
}
// One half: the lower of a pair.
__device__ __forceinline__ std::uint32_t load_shared_half(std::uint32_t at) {
  unsigned short r;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(r) : "r"(at));
  return r;
}
__device__ __forceinline__ void store_shared_half(std::uint32_t pair, std::uint32_t at) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(static_cast<unsigned short>(pair)) : "memory");
}

// An 8 x 8 matrix of halves, of which every lane has a pair of a row.
__device__ __forceinline__ std::uint32_t transpose(std::uint32_t pair) {
  std::uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair));
  return r;
}

// 16 bytes (or 8, or 4), zeros when there is no source.
__device__ __forceinline__ void copy16(std::uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copy8(std::uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(exists ? 8 : 0) : "memory");
}
__device__ __forceinline__ void copy4(std::uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(exists ? 4 : 0) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the last `kOpen` groups have arrived.
template <int kOpen>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

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
      asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(base + static_cast<std::uint32_t>(e * 16)));
      for (std::uint32_t pair : r) strange |= device::is_strange<T>(pair);
    }
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
