#pragma once

#include "core/cuda/mma.cuh"

// Products of a warpgroup, four warps, with operands in shared memory: 64 x 64 x 16 or 64 x 32 x 16, asynchronous. Only
// sm_90a has the instructions; elsewhere these functions stop the kernel, and the launcher does not choose it.
//
// Tiles are SharedTile<64> or SharedTile<32> at multiples of 1024 bytes: their exchange of pieces is the 128-byte or
// the 64-byte swizzle of the hardware. Lane and element of a result are those of a 16 x 8 x 16 product, warp w of the
// group having rows [16 w, 16 w + 16).
namespace fovea::tile::cuda {

using namespace device;  // NOLINT: what the engines on a card share

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the last kOpen committed groups are done.
template <int kOpen>
__device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// What ordinary stores and copies left in shared memory is for the tensor cores to read, after the next barrier.
__device__ __forceinline__ void show_to_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define FOVEA_ROW(i) "+f"(d[kFirst + i][0]), "+f"(d[kFirst + i][1]), "+f"(d[kFirst + i][2]), "+f"(d[kFirst + i][3])
#define FOVEA_HALF_RESULT FOVEA_ROW(0), FOVEA_ROW(1), FOVEA_ROW(2), FOVEA_ROW(3)
#define FOVEA_RESULT FOVEA_HALF_RESULT, FOVEA_ROW(4), FOVEA_ROW(5), FOVEA_ROW(6), FOVEA_ROW(7)
#define FOVEA_HALF_REGISTERS "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define FOVEA_REGISTERS                                                                     \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23," \
  "%24,%25,%26,%27,%28,%29,%30,%31}"

// d (+)= a b^T of two tiles; columns [8 kFirst, 8 kFirst + 64) of d.
template <class T, int kFirst, int kColumns>
__device__ __forceinline__ void multiply_tiles(float (&d)[kColumns][4], std::uint64_t a, std::uint64_t b, int adds) {
  if constexpr (std::is_same_v<T, bfloat16>)
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, "
        "0;\n\twgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " FOVEA_REGISTERS ", %32, %33, p, 1, 1, 0, 0;\n\t}"
        : FOVEA_RESULT
        : "l"(a), "l"(b), "r"(adds));
  else
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, "
        "0;\n\twgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " FOVEA_REGISTERS ", %32, %33, p, 1, 1, 0, 0;\n\t}"
        : FOVEA_RESULT
        : "l"(a), "l"(b), "r"(adds));
}

// d += a b, a in registers, b 16 rows of a tile of kPanel columns.
template <class T, int kPanel, int kFirst, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&d)[kColumns][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (kPanel == 32 && std::is_same_v<T, bfloat16>)
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " FOVEA_HALF_REGISTERS
                 ", {%16,%17,%18,%19}, %20, 1, 1, 1, 1;"
                 : FOVEA_HALF_RESULT
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else if constexpr (kPanel == 32)
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " FOVEA_HALF_REGISTERS
                 ", {%16,%17,%18,%19}, %20, 1, 1, 1, 1;"
                 : FOVEA_HALF_RESULT
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else if constexpr (std::is_same_v<T, bfloat16>)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " FOVEA_REGISTERS
                 ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : FOVEA_RESULT
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " FOVEA_REGISTERS
                 ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : FOVEA_RESULT
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef FOVEA_ROW
#undef FOVEA_HALF_RESULT
#undef FOVEA_RESULT
#undef FOVEA_HALF_REGISTERS
#undef FOVEA_REGISTERS

#else

__device__ __forceinline__ void begin_products() { __trap(); }
__device__ __forceinline__ void commit_products() {}
template <int kOpen>
__device__ __forceinline__ void await_products() {}
__device__ __forceinline__ void show_to_tensor_cores() {}
template <class T, int kFirst, int kColumns>
__device__ __forceinline__ void multiply_tiles(float (&)[kColumns][4], std::uint64_t, std::uint64_t, int) {}
template <class T, int kPanel, int kFirst, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&)[kColumns][4], const std::uint32_t (&)[4], std::uint64_t) {}

#endif

}  // namespace fovea::tile::cuda
