#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// Instructions of the card that C++ has no words for, sm_80 and later: tensor-core products of 16 x 8 x 16, copies that
// run beside the arithmetic, shared memory by its address. Kernels say them in no other place but the warpgroups of the
// tiled engine, so that tests/gpu/emulated can put loops in their place.
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

// Keeps the compiler from using a number before this point.
__device__ __forceinline__ void keep_until_here(float& x) { asm volatile("" : "+f"(x)::"memory"); }

}  // namespace fovea::device
