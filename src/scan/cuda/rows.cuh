#pragma once

#include "scan/cuda/elements.cuh"

// What stands before and behind the walks: scales of gradients, denominators, the norm over all heads, slopes of maps.
namespace fovea::scan::cuda {

inline constexpr int kRowThreads = 256;

template <class R>
__device__ inline R warp_sum(R x) {
  for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(0xffffffffu, x, other);
  return x;
}

// What walks left: [tiles][rows][heads][width], summed over the tiles.
template <class R>
struct Partial {
  const R* data;
  std::int32_t tiles, heads, width;
  std::int64_t rows;

  __device__ R at(std::int64_t row, std::int32_t head, std::int32_t column) const {
    R sum = 0;
    for (std::int32_t i = 0; i < tiles; ++i) sum += data[((i * rows + row) * heads + head) * width + column];
    return sum;
  }
};

template <class R>
__device__ inline R denominator(const Call& call, R sum) {
  const R eps = static_cast<R>(call.denominator_eps);
  if (call.denominator == Denominator::add) return sum + eps;
  return sum < eps ? eps : sum;
}

// Writes o, what it lost and the statistic, a warp for each row. Grid: ranges of queries.
template <class R>
__global__ void finish_forward_kernel(const __grid_constant__ Call call, const Cut* cuts,
                                      const __grid_constant__ Partial<R> y) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t i = cut.begin + threadIdx.x / 32; i < cut.end; i += kRowThreads / 32) {
    const std::int64_t row = piece.first_q + i;
    const bool reads = piece.reads(i);
    R* statistic = call.out_statistic.data == nullptr ? nullptr
                                                      : static_cast<R*>(call.out_statistic.data) +
                                                            offset_of(call.out_statistic, piece.batch, piece.q0 + i, 0);
    R norm = 1;
    if (call.rms_norm) {
      R squares = 0;
      for (std::int32_t h = 0; reads && h < call.heads; ++h)
        for (std::int32_t c = lane; c < call.d_v; c += 32) {
          const R x = y.at(row, h, c);
          squares += x * x;
        }
      const R mean = warp_sum(squares) / static_cast<R>(call.heads * call.d_v) + static_cast<R>(call.norm_eps);
      norm = mean == 0 ? R{0} : 1 / sqrt(mean);
      if (statistic != nullptr && lane == 0) *statistic = reads ? norm : R{0};
    }
    for (std::int32_t h = 0; h < call.heads; ++h) {
      R factor = norm;
      if (call.denominator != Denominator::none) {
        const R d = reads ? denominator(call, y.at(row, h, call.d_v)) : R{0};
        factor = d == 0 ? R{0} : 1 / d;
        if (statistic != nullptr && lane == 0) statistic[h] = d;
      }
      const std::int64_t to = offset_of(call.out, piece.batch, piece.q0 + i, h);
      const std::int64_t rest = offset_of(call.out_rest, piece.batch, piece.q0 + i, h);
      for (std::int32_t c = lane; c < call.d_v; c += 32) {
        const R x = reads ? y.at(row, h, c) * factor : R{0};
        store_as<R>(call.out.data, call.output_type, to + c, x);
        if (call.out_rest.data != nullptr)
          store_as<R>(call.out_rest.data, call.output_type, rest + c,
                      x - load_as<R>(call.out.data, call.output_type, to + c));
      }
    }
  }
}

// What turns gradients of o into those of y. Grid: ranges of queries.
template <class R>
__global__ void row_scales_kernel(const __grid_constant__ Call call, const Cut* cuts, RowScale<R>* scales) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t i = cut.begin + threadIdx.x / 32; i < cut.end; i += kRowThreads / 32) {
    RowScale<R>* const to = scales + (piece.first_q + i) * call.heads;
    const R* statistic =
        static_cast<const R*>(call.statistic.data) + offset_of(call.statistic, piece.batch, piece.q0 + i, 0);
    R all = 0;
    for (std::int32_t h = 0; h < call.heads; ++h) {
      const std::int64_t d_o = offset_of(call.d_o, piece.batch, piece.q0 + i, h);
      const std::int64_t o = offset_of(call.o, piece.batch, piece.q0 + i, h);
      const std::int64_t rest = offset_of(call.rest, piece.batch, piece.q0 + i, h);
      R dot = 0;
      for (std::int32_t c = lane; c < call.d_v; c += 32) {
        R x = load_as<R>(call.o.data, call.output_type, o + c);
        if (call.rest.data != nullptr) x += load_as<R>(call.rest.data, call.output_type, rest + c);
        dot += load_as<R>(call.d_o.data, call.output_type, d_o + c) * x;
      }
      dot = warp_sum(dot);
      all += dot;
      if (call.rms_norm) continue;
      const R d = statistic[h], factor = d == 0 ? R{0} : 1 / d;
      const bool clamped = call.denominator == Denominator::clamp && d <= static_cast<R>(call.denominator_eps);
      if (lane == 0) to[h] = {factor, 0, clamped ? R{0} : -factor * dot};
    }
    if (!call.rms_norm) continue;
    const R pull = all / static_cast<R>(call.heads * call.d_v);
    for (std::int32_t h = lane; h < call.heads; h += 32) to[h] = {statistic[0], pull, 0};
  }
}

// The gradient of q, k or v from that of its features. Grid: ranges of rows.
template <class R>
__global__ void finish_gradient_kernel(const __grid_constant__ Call call, const Cut* cuts, Source source,
                                       const __grid_constant__ Partial<R> sums) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const bool of_queries = source == Source::queries, is_value = source == Source::values;
  const std::int32_t heads = of_queries ? call.heads : call.kv_heads, dim = is_value ? call.d_v : call.d_k;
  const std::int32_t group = sums.heads / heads;
  const Out& out = of_queries ? call.dq : (is_value ? call.dv : call.dk);
  const std::int64_t count = (cut.end - cut.begin) * heads * dim;
  for (std::int64_t e = threadIdx.x; e < count; e += kRowThreads) {
    const std::int64_t i = cut.begin + e / (heads * dim);
    const auto h = static_cast<std::int32_t>(e / dim % heads), c = static_cast<std::int32_t>(e % dim);
    const std::int64_t row = (of_queries ? piece.first_q : piece.first_k) + i;
    R sum = 0;
    for (std::int32_t j = 0; (!of_queries || piece.reads(i)) && j < group; ++j) sum += sums.at(row, h * group + j, c);
    if (!is_value && call.map != Map::identity) sum *= slope<R>(call.map, SourceRow<R>(call, source, piece, i, h)[c]);
    const std::int64_t at = offset_of(out, piece.batch, (of_queries ? piece.q0 : piece.k0) + i, h) + c;
    store_as<R>(out.data, call.dtype, at, sum);
  }
}

// terms[key row][kv head][column] = f(q) df(q), summed over the heads of the group, less f(k) df(k); summed over the
// channels where they decay alike. A warp for each (row, kv head). Grid: ranges of keys.
template <class R>
__global__ void decay_terms_kernel(const __grid_constant__ Call call, const Cut* cuts,
                                   const __grid_constant__ Partial<R> dq, const __grid_constant__ Partial<R> dk,
                                   double* terms) {
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const int lane = static_cast<int>(threadIdx.x) % 32, columns = call.decay_columns();
  const std::int64_t count = (cut.end - cut.begin) * call.kv_heads;
  for (std::int64_t e = threadIdx.x / 32; e < count; e += kRowThreads / 32) {
    const std::int64_t t = cut.begin + e / call.kv_heads, i = t - piece.shift;
    const auto g = static_cast<std::int32_t>(e % call.kv_heads);
    double* const to = terms + ((piece.first_k + t) * call.kv_heads + g) * columns;
    double sum = 0;
    for (std::int32_t a = lane; a < call.d_k; a += 32) {
      const R f = SourceRow<R>(call, Source::keys, piece, t, g)[a];
      double own = 0;
      for (std::int32_t h = g * call.group(); h < (g + 1) * call.group(); ++h) {
        own -= static_cast<double>(f * dk.at(piece.first_k + t, h, a));
        if (i >= 0)
          own +=
              static_cast<double>(SourceRow<R>(call, Source::queries, piece, i, h)[a] * dq.at(piece.first_q + i, h, a));
      }
      if (columns > 1)
        to[a] = own;
      else
        sum += own;
    }
    if (columns > 1) continue;
    sum = warp_sum(sum);
    if (lane == 0) *to = sum;
  }
}

}  // namespace fovea::scan::cuda
