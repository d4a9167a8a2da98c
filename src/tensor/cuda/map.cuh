#pragma once

#include <array>

#include "tensor/cuda/elements.cuh"
#include "tensor/cuda/map_plan.h"

namespace fovea::device {

inline constexpr int kPack = MapPlan::kPack;

// Eight neighbours at once, 16 bytes in an instruction.
template <class R>
__device__ inline void load_pack(const Elements<R>& from, std::int64_t i, R (&to)[kPack]) {
  if (from.dtype == DType::bf16 || from.dtype == DType::f16) {
    const uint4 bits = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(from.data) + i);
    const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 pair = from.dtype == DType::bf16
                              ? __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&words[w]))
                              : __half22float2(*reinterpret_cast<const __half2*>(&words[w]));
      to[2 * w] = static_cast<R>(pair.x);
      to[2 * w + 1] = static_cast<R>(pair.y);
    }
  } else if (from.dtype == DType::f32) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(from.data) + i + 4 * h);
      to[4 * h] = static_cast<R>(four.x);
      to[4 * h + 1] = static_cast<R>(four.y);
      to[4 * h + 2] = static_cast<R>(four.z);
      to[4 * h + 3] = static_cast<R>(four.w);
    }
  } else {
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      const double2 two = *reinterpret_cast<const double2*>(static_cast<const double*>(from.data) + i + 2 * h);
      to[2 * h] = static_cast<R>(two.x);
      to[2 * h + 1] = static_cast<R>(two.y);
    }
  }
}

template <class R>
__device__ inline void store_pack(const Elements<R>& to, std::int64_t i, const R (&from)[kPack]) {
  if (to.dtype == DType::bf16 || to.dtype == DType::f16) {
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const auto low = static_cast<float>(from[2 * w]), high = static_cast<float>(from[2 * w + 1]);
      if (to.dtype == DType::bf16)
        *reinterpret_cast<__nv_bfloat162*>(&words[w]) = __floats2bfloat162_rn(low, high);
      else
        *reinterpret_cast<__half2*>(&words[w]) = __floats2half2_rn(low, high);
    }
    *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(to.data) + i) =
        make_uint4(words[0], words[1], words[2], words[3]);
  } else if (to.dtype == DType::f32) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<float4*>(static_cast<float*>(to.data) + i + 4 * h) =
          make_float4(static_cast<float>(from[4 * h]), static_cast<float>(from[4 * h + 1]),
                      static_cast<float>(from[4 * h + 2]), static_cast<float>(from[4 * h + 3]));
  } else {
#pragma unroll
    for (int h = 0; h < 4; ++h)
      *reinterpret_cast<double2*>(static_cast<double*>(to.data) + i + 2 * h) =
          make_double2(static_cast<double>(from[2 * h]), static_cast<double>(from[2 * h + 1]));
  }
}

// f of element i, in whichever form f is written. `shared`: what eight elements have together, if they have.
template <class R, class F, std::size_t... kIn, class... Shared>
__device__ inline auto apply_map(const F& f, std::int64_t i, const R* x, std::index_sequence<kIn...>,
                                 const Shared&... shared) {
  if constexpr (sizeof...(Shared) == 1)
    return f(shared..., static_cast<int>(i % kPack), x[kIn]...);
  else if constexpr (requires { f.of_eight(i); })
    return f(f.of_eight(i / kPack * kPack), static_cast<int>(i % kPack), x[kIn]...);
  else if constexpr (requires { f(i, x[kIn]...); })
    return f(i, x[kIn]...);
  else
    return f(x[kIn]...);
}

// The operands of a map: outputs first.
template <class R, int kOutputs, int kInputs>
struct MapOperands {
  static constexpr int kOut = kOutputs, kIn = kInputs, kAll = kOut + kIn;
  static constexpr int kRoom = kIn == 0 ? 1 : kIn;
  using Sequence = std::make_index_sequence<kIn>;
  Elements<R> of[kAll];

  __device__ R load(int k, std::int64_t at) const { return of[kOut + k].defined() ? of[kOut + k][at] : R(0); }
};

// Element k of what f gave: a number, or Values.
template <class Y>
__device__ inline auto part_of(const Y& y, [[maybe_unused]] int k) {
  if constexpr (requires { y.of; })
    return y.of[k];
  else
    return y;
}

template <class R, class F, class Operands>
__global__ void map_kernel(F f, MapPlan plan, Operands operands) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < plan.count; i += step) {
    std::int64_t at[Operands::kAll];
    plan.place(i, at);
    R x[Operands::kRoom];
#pragma unroll
    for (int k = 0; k < Operands::kIn; ++k) x[k] = operands.load(k, at[Operands::kOut + k]);
    const auto y = apply_map<R>(f, i, x, typename Operands::Sequence());
#pragma unroll
    for (int k = 0; k < Operands::kOut; ++k) operands.of[k].put(at[k], static_cast<R>(part_of(y, k)));
  }
}

template <class R, class F, class Operands, class... Shared>
__device__ inline void apply_to_pack(const F& f, std::int64_t i, const R (&x)[Operands::kRoom][kPack],
                                     R (&y)[Operands::kOut][kPack], const Shared&... shared) {
#pragma unroll
  for (int e = 0; e < kPack; ++e) {
    R one[Operands::kRoom];
#pragma unroll
    for (int k = 0; k < Operands::kIn; ++k) one[k] = x[k][e];
    const auto values = apply_map<R>(f, i + e, one, typename Operands::Sequence(), shared...);
#pragma unroll
    for (int k = 0; k < Operands::kOut; ++k) y[k][e] = static_cast<R>(part_of(values, k));
  }
}

// The same for eight neighbours a thread, where all operands have them side by side or are one number.
template <class R, class F, class Operands>
__global__ void map_packs_kernel(F f, MapPlan plan, Operands operands) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * kPack;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPack; i < plan.count; i += step) {
    std::int64_t at[Operands::kAll];
    plan.place(i, at);
    R x[Operands::kRoom][kPack], y[Operands::kOut][kPack];
#pragma unroll
    for (int k = 0; k < Operands::kIn; ++k) {
      if (plan.is_along(Operands::kOut + k)) {
        load_pack(operands.of[Operands::kOut + k], at[Operands::kOut + k], x[k]);
      } else {
        const R same = operands.load(k, at[Operands::kOut + k]);
#pragma unroll
        for (R& value : x[k]) value = same;
      }
    }
    if constexpr (requires { f.of_eight(i); })
      apply_to_pack<R, F, Operands>(f, i, x, y, f.of_eight(i));
    else
      apply_to_pack<R, F, Operands>(f, i, x, y);
#pragma unroll
    for (int k = 0; k < Operands::kOut; ++k) store_pack(operands.of[k], at[k], y[k]);
  }
}

template <class R, std::size_t kOut, class F, class... In>
void map(const Queue& queue, const F& f, const std::array<Tensor, kOut>& y, const In&... x) {
  using Operands = MapOperands<R, static_cast<int>(kOut), static_cast<int>(sizeof...(In))>;
  std::array<Tensor, Operands::kAll> all;
  std::size_t n = 0;
  for (const Tensor& t : y) all[n++] = t;
  ((all[n++] = x), ...);
  const MapPlan plan(all);
  if (plan.count == 0) return;
  Operands operands;
  for (int k = 0; k < Operands::kAll; ++k) operands.of[k] = elements<R>(all[static_cast<std::size_t>(k)]);
  if (plan.has_packs)
    map_packs_kernel<R><<<blocks_for(plan.count / kPack), kThreads, 0, queue.stream>>>(f, plan, operands);
  else
    map_kernel<R><<<blocks_for(plan.count), kThreads, 0, queue.stream>>>(f, plan, operands);
  check_cuda(cudaGetLastError(), "a map over elements");
}

template <class R, class F, class... In>
void map(const Queue& queue, const F& f, const Tensor& y, const In&... x) {
  map<R, 1>(queue, f, std::array<Tensor, 1>{y}, x...);
}

}  // namespace fovea::device
