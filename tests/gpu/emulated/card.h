#pragma once

// A card for programs without one: kernels, turned into C++ by translate.py, run on the host. Blocks run one after the
// other; the threads of a block are fibers that take turns where they wait for each other. So what a kernel computes
// is seen by every test that the card runs, and a barrier that is missing shows as other bits: every second launch
// runs its threads in the opposite order, and shared memory begins as NaN. How fast it is, and what the hardware makes
// of an instruction (ptx.cuh beside this page has loops instead), only a card can tell.

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

// Before the headers of half types: they look at these.
#undef __device__
#undef __host__
#undef __global__
#undef __constant__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __device__
#define __host__
#define __global__ inline
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

namespace fovea::emulated {

// Where the running thread is.
struct Place {
  dim3 grid, block, block_index;
  uint3 thread{0, 0, 0};
};
extern Place here;

std::byte* shared_memory();
// Shared memory of the running block by its address; ends the program where the block has none.
std::byte* shared_at(std::uint32_t address, std::size_t bytes);

void await_block();
void await_warp();

// What the lanes of a warp tell each other, in words of 32 bits.
struct Words {
  std::uint32_t word[8];
};
const Words* exchange(const Words& mine);  // of all 32 lanes
template <class T>
T of_lane(T mine, unsigned lane) {
  static_assert(sizeof(T) <= sizeof(Words));
  Words words{};
  std::memcpy(words.word, &mine, sizeof(T));
  const Words* all = exchange(words);
  std::memcpy(&mine, all[lane % 32].word, sizeof(T));
  return mine;
}

// A copy into shared memory that arrives when somebody waits for its group.
struct Copy {
  std::uint32_t to;
  const void* from;
  std::size_t bytes;
  bool exists;
};
void begin_copy(const Copy& copy);
void commit_copies();
void await_copies(int open);

struct Launch {
  dim3 grid, block;
  std::size_t bytes;
  Launch(dim3 grid, dim3 block, std::size_t bytes = 0, cudaStream_t = nullptr)
      : grid(grid), block(block), bytes(bytes) {}
  template <class... Parameters>
  auto of(void (*kernel)(Parameters...)) const {
    return
        [*this, kernel](const std::type_identity_t<Parameters>&... arguments) { run([&] { kernel(arguments...); }); };
  }

 private:
  void run(const std::function<void()>& thread) const;
};

}  // namespace fovea::emulated

#define threadIdx (fovea::emulated::here.thread)
#define blockIdx (fovea::emulated::here.block_index)
#define blockDim (fovea::emulated::here.block)
#define gridDim (fovea::emulated::here.grid)

// What kernels call of CUDA without a header of their own.
using std::exp, std::fma, std::isfinite, std::isnan, std::log, std::max, std::min, std::sqrt;

inline unsigned emulated_lane() { return threadIdx.x % 32; }
inline void __syncthreads() { fovea::emulated::await_block(); }
inline void __syncwarp(unsigned = 0) { fovea::emulated::await_warp(); }
template <class T>
T __shfl_sync(unsigned, T x, int lane) {
  return fovea::emulated::of_lane(x, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int other) {
  return fovea::emulated::of_lane(x, emulated_lane() ^ static_cast<unsigned>(other));
}
template <class T>
T __shfl_up_sync(unsigned, T x, unsigned by) {
  return fovea::emulated::of_lane(x, emulated_lane() < by ? emulated_lane() : emulated_lane() - by);
}
template <class T>
T __shfl_down_sync(unsigned, T x, unsigned by) {
  return fovea::emulated::of_lane(x, emulated_lane() + by > 31 ? emulated_lane() : emulated_lane() + by);
}
unsigned __ballot_sync(unsigned, bool mine);
inline bool __any_sync(unsigned mask, bool mine) { return __ballot_sync(mask, mine) != 0; }
int __syncthreads_or(int mine);
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline float __uint_as_float(std::uint32_t x) { return std::bit_cast<float>(x); }
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline std::size_t __cvta_generic_to_shared(const void* at) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(at) - fovea::emulated::shared_memory());
}
template <class F>
cudaError_t cudaFuncSetAttribute(F*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** at, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(at), bytes);
}
