#pragma once

#include "core/cuda/mma.cuh"
#include "scan/cuda/rows.cuh"

// What tensor-core kernels leave to a pass over whole rows: the norm over all heads, and its gradient.
namespace fovea::scan::cuda {

// Eight numbers of a row in bf16 or f32, and what they lost as bf16.
struct Eight {
  float x[8];

  __device__ __forceinline__ void load(const void* data, std::int64_t at) {
    add(static_cast<const uint4*>(data)[at / 8], true);
  }
  __device__ __forceinline__ void load_as(DType type, const void* data, std::int64_t at) {
    if (type != DType::f32) return load(data, at);
    const auto* const from = reinterpret_cast<const float4*>(static_cast<const float*>(data) + at);
    const float4 a = from[0], b = from[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
  }
  __device__ __forceinline__ void add_rest(const void* data, std::int64_t at) {
    if (data != nullptr) add(static_cast<const uint4*>(data)[at / 8], false);
  }
  // Stores the rest in place of the numbers if somebody wants it.
  __device__ __forceinline__ void store(void* data, std::int64_t at, void* rest, std::int64_t rest_at) {
    std::uint32_t r[4];
    put(data, at, r);
    if (rest == nullptr) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] -= __uint_as_float(r[i] << 16);
      x[2 * i + 1] -= __uint_as_float(r[i] & 0xffff0000u);
    }
    put(rest, rest_at, r);
  }
  __device__ __forceinline__ void store_wide(void* data, std::int64_t at) const {
    auto* const to = reinterpret_cast<float4*>(static_cast<float*>(data) + at);
    to[0] = {x[0], x[1], x[2], x[3]};
    to[1] = {x[4], x[5], x[6], x[7]};
  }

 private:
  __device__ __forceinline__ void add(const uint4& bits, bool first) {
    const std::uint32_t r[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = (first ? 0.0f : x[2 * i]) + __uint_as_float(r[i] << 16);
      x[2 * i + 1] = (first ? 0.0f : x[2 * i + 1]) + __uint_as_float(r[i] & 0xffff0000u);
    }
  }
  __device__ __forceinline__ void put(void* data, std::int64_t at, std::uint32_t (&r)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) r[i] = pack<bfloat16>(x[2 * i], x[2 * i + 1]);
    static_cast<uint4*>(data)[at / 8] = {r[0], r[1], r[2], r[3]};
  }
};

// A lane's pieces of a row, e = lane, + 32, ...: the first are loaded at once and stay in registers for the second
// time.
inline constexpr int kHeld = 4;
template <class T, class Load, class F>
__device__ __forceinline__ void each_piece(int count, T (&held)[kHeld], const Load& load, const F& f) {
#pragma unroll
  for (int j = 0; j < kHeld; ++j)
    if (lane() + 32 * j < count) load(lane() + 32 * j, held[j]);
#pragma unroll
  for (int j = 0; j < kHeld; ++j)
    if (lane() + 32 * j < count) f(lane() + 32 * j, held[j]);
  for (int e = lane() + 32 * kHeld; e < count; e += 32) {
    T x;
    load(e, x);
    f(e, x);
  }
}
template <class T, class Load, class F>
__device__ __forceinline__ void each_piece_again(int count, T (&held)[kHeld], const Load& load, const F& f) {
#pragma unroll
  for (int j = 0; j < kHeld; ++j)
    if (lane() + 32 * j < count) f(lane() + 32 * j, held[j]);
  for (int e = lane() + 32 * kHeld; e < count; e += 32) {
    T x;
    load(e, x);
    f(e, x);
  }
}
struct Gradient {
  Eight o, d_o;
};

// Normalises rows of o, which are y as yet, with their rest. A warp for each row. Grid: ranges of queries.
__global__ void norm_rows_kernel(const __grid_constant__ Call call, const Cut* cuts) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int pieces = call.d_v / 8, count = call.heads * pieces;
  const auto place = [&](const Out& out, std::int64_t i, int e) {
    return offset_of(out, piece.batch, piece.q0 + i, e / pieces) + e % pieces * 8;
  };
  for (std::int64_t i = cut.begin + threadIdx.x / 32; i < cut.end; i += kRowThreads / 32) {
    float squares = 0;
    Eight held[kHeld];
    const auto load = [&](int e, Eight& y) {
      y.load_as(call.output_type, call.out.data, place(call.out, i, e));
      y.add_rest(call.out_rest.data, place(call.out_rest, i, e));
    };
    each_piece(count, held, load, [&](int, const Eight& y) {
#pragma unroll
      for (float x : y.x) squares += x * x;
    });
    const float mean =
        warp_sum(squares) / static_cast<float>(call.heads * call.d_v) + static_cast<float>(call.norm_eps);
    const float factor = mean == 0 ? 0.0f : 1 / sqrtf(mean);
    if (lane() == 0 && call.out_statistic.data != nullptr)
      static_cast<float*>(call.out_statistic.data)[offset_of(call.out_statistic, piece.batch, piece.q0 + i, 0)] =
          factor;
    each_piece_again(count, held, load, [&](int e, Eight& y) {
#pragma unroll
      for (float& x : y.x) x *= factor;
      if (call.output_type == DType::f32) return y.store_wide(call.out.data, place(call.out, i, e));
      y.store(call.out.data, place(call.out, i, e), call.out_rest.data, place(call.out_rest, i, e));
    });
  }
}

// With a denominator: {1 / d, pull} of every row and head, see column.cuh. As many lanes as a head's row has pieces
// share it. Gradients in f32 are rounded into `gradient`, [query rows][heads][d_v], and pulls are those of the rounded
// ones, which they cancel. Grid: ranges of queries.
__global__ void denominator_rows_kernel(const __grid_constant__ Call call, const Cut* cuts, float2* scales,
                                        void* gradient) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int pieces = call.d_v / 8, count = static_cast<int>(cut.end - cut.begin) * call.heads * pieces;
#pragma unroll 2
  for (int base = 0; base < count; base += kRowThreads) {
    const int e = base + static_cast<int>(threadIdx.x), h = e / pieces % call.heads, column = e % pieces * 8;
    const std::int64_t i = cut.begin + e / pieces / call.heads;
    float dot = 0;
    if (e < count) {
      Eight o, d_o;
      o.load_as(call.output_type, call.o.data, offset_of(call.o, piece.batch, piece.q0 + i, h) + column);
      o.add_rest(call.rest.data, offset_of(call.rest, piece.batch, piece.q0 + i, h) + column);
      d_o.load_as(call.output_type, call.d_o.data, offset_of(call.d_o, piece.batch, piece.q0 + i, h) + column);
      if (gradient != nullptr) {
        const std::int64_t to = ((piece.first_q + i) * call.heads + h) * call.d_v + column;
        d_o.store(gradient, to, nullptr, 0);
        d_o.load(gradient, to);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) dot += o.x[j] * d_o.x[j];
    }
    for (int other = pieces / 2; other > 0; other /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, other);
    if (e >= count || column != 0) continue;
    const float d =
        static_cast<const float*>(call.statistic.data)[offset_of(call.statistic, piece.batch, piece.q0 + i, 0) + h];
    const bool clamped = call.denominator == Denominator::clamp && d <= static_cast<float>(call.denominator_eps);
    scales[(piece.first_q + i) * call.heads + h] = {d == 0 ? 0.0f : 1 / d, clamped ? 0.0f : -dot};
  }
}

// Gradients of keys or values, summed over the heads of groups, which have bf16, [key rows][heads][dim]. Grid: ranges
// of keys.
__global__ void sum_heads_kernel(const __grid_constant__ Call call, const Cut* cuts, const void* heads,
                                 const __grid_constant__ Out out) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int pieces = call.d_k / 8, group = call.group();
  const int count = static_cast<int>(cut.end - cut.begin) * call.kv_heads * pieces;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kRowThreads) {
    const int head = e / pieces % call.kv_heads, column = e % pieces * 8;
    const std::int64_t t = cut.begin + e / pieces / call.kv_heads;
    const std::int64_t from = ((piece.first_k + t) * call.heads + head * group) * call.d_k + column;
    Eight sum;
    sum.load(heads, from);
    for (int j = 1; j < group; ++j) sum.add_rest(heads, from + std::int64_t{j} * call.d_k);
    sum.store(out.data, offset_of(out, piece.batch, piece.k0 + t, head) + column, nullptr, 0);
  }
}

// The gradient of a step's decay from those of all channels, [key rows][kv heads][d_k]. A warp for each row of a head.
// Grid: ranges of keys.
__global__ void sum_channels_kernel(const __grid_constant__ Call call, const Cut* cuts, const float* channels) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const std::int64_t count = (cut.end - cut.begin) * call.kv_heads;
  for (std::int64_t e = threadIdx.x / 32; e < count; e += kRowThreads / 32) {
    const std::int64_t t = cut.begin + e / call.kv_heads, head = e % call.kv_heads;
    float sum = 0;
    for (std::int32_t c = lane(); c < call.d_k; c += 32)
      sum += channels[((piece.first_k + t) * call.kv_heads + head) * call.d_k + c];
    sum = warp_sum(sum);
    if (lane() == 0)
      static_cast<float*>(call.d_log_decay.data)[offset_of(call.d_log_decay, piece.batch, piece.k0 + t, head)] = sum;
  }
}

// Gradients in f32 as pairs of bf16, [query rows][heads][d_v]. Grid: ranges of queries.
__global__ void split_rows_kernel(const __grid_constant__ Call call, const Cut* cuts, void* gradient, void* rest) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int pieces = call.d_v / 8, count = static_cast<int>(cut.end - cut.begin) * call.heads * pieces;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kRowThreads) {
    const int head = e / pieces % call.heads, column = e % pieces * 8;
    const std::int64_t i = cut.begin + e / pieces / call.heads;
    const std::int64_t to = ((piece.first_q + i) * call.heads + head) * call.d_v + column;
    Eight x;
    x.load_as(DType::f32, call.d_o.data, offset_of(call.d_o, piece.batch, piece.q0 + i, head) + column);
    x.store(gradient, to, rest, to);
  }
}

// The gradient of y as a pair of bf16, [query rows][heads][d_v]. A warp for each row. Grid: ranges of queries.
__global__ void gradient_rows_kernel(const __grid_constant__ Call call, const Cut* cuts, void* gradient, void* rest) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int pieces = call.d_v / 8, count = call.heads * pieces;
  const auto place = [&](const In& in, std::int64_t i, int e) {
    return offset_of(in, piece.batch, piece.q0 + i, e / pieces) + e % pieces * 8;
  };
  for (std::int64_t i = cut.begin + threadIdx.x / 32; i < cut.end; i += kRowThreads / 32) {
    const float factor =
        static_cast<const float*>(call.statistic.data)[offset_of(call.statistic, piece.batch, piece.q0 + i, 0)];
    float dot = 0;
    Gradient held[kHeld];
    const auto load = [&](int e, Gradient& g) {
      g.o.load_as(call.output_type, call.o.data, place(call.o, i, e));
      g.o.add_rest(call.rest.data, place(call.rest, i, e));
      g.d_o.load_as(call.output_type, call.d_o.data, place(call.d_o, i, e));
    };
    each_piece(count, held, load, [&](int, const Gradient& g) {
#pragma unroll
      for (int j = 0; j < 8; ++j) dot += g.o.x[j] * g.d_o.x[j];
    });
    const float pull = warp_sum(dot) / static_cast<float>(call.heads * call.d_v);
    each_piece_again(count, held, load, [&](int e, Gradient& g) {
#pragma unroll
      for (int j = 0; j < 8; ++j) g.d_o.x[j] = (g.d_o.x[j] - g.o.x[j] * pull) * factor;
      const std::int64_t to = ((piece.first_q + i) * call.heads + e / pieces) * call.d_v + e % pieces * 8;
      g.d_o.store(gradient, to, rest, to);
    });
  }
}

}  // namespace fovea::scan::cuda
