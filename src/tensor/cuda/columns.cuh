#pragma once

#include <algorithm>

#include "tensor/cuda/rows.cuh"

namespace fovea::device {

// Rows cut into segments that are summed at once; by the shape alone.
struct Segments {
  static constexpr std::int64_t kRows = 64, kMost = 512;

  explicit Segments(std::int64_t rows, std::int64_t least = kRows, std::int64_t most = kMost) : rows(rows) {
    const std::int64_t wanted = std::clamp<std::int64_t>(rows / least, 1, most);
    size = std::max<std::int64_t>(1, (rows + wanted - 1) / wanted);
    count = (rows + size - 1) / size;
  }
  std::int64_t rows, size = 0, count = 0;
};

struct ColumnShape {
  std::int64_t rows, width;
};

inline constexpr int kSumColumns = 32, kSumLanes = kThreads / kSumColumns;

// sums (segments, width): 8 lanes of a column take every 8th row of a segment, and are joined in order.
template <class S, class F>
__global__ void column_sums_kernel(F f, ColumnShape shape, Segments segments, S* sums) {
  __shared__ S of_lane[kSumLanes][kSumColumns + 1];
  const int column = static_cast<int>(threadIdx.x) % kSumColumns, lane = static_cast<int>(threadIdx.x) / kSumColumns;
  const std::int64_t c = std::int64_t{blockIdx.x} * kSumColumns + column;
  for (std::int64_t segment = blockIdx.y; segment < segments.count; segment += gridDim.y) {
    const std::int64_t begin = segment * segments.size;
    const std::int64_t end = begin + segments.size < shape.rows ? begin + segments.size : shape.rows;
    S sum{};
    if (c < shape.width)
      for (std::int64_t r = begin + lane; r < end; r += kSumLanes) sum = sum + f(r, c);
    __syncthreads();
    of_lane[lane][column] = sum;
    __syncthreads();
    if (lane == 0 && c < shape.width) {
      for (int l = 1; l < kSumLanes; ++l) sum = sum + of_lane[l][column];
      sums[segment * shape.width + c] = sum;
    }
  }
}

template <class F, class Put>
void column_sums(const Context& context, const ColumnShape& shape, const F& f, const Put& put) {
  using S = std::invoke_result_t<F, std::int64_t, std::int64_t>;
  if (shape.width <= 0) return;
  const Segments segments(shape.rows);
  const auto bytes = static_cast<std::int64_t>(sizeof(S)) * segments.count * shape.width;
  const Tensor scratch = Tensor::empty(context, {bytes}, DType::u8, Lifetime::scratch);
  S* const sums = static_cast<S*>(scratch.raw());
  const dim3 grid(static_cast<unsigned>((shape.width + kSumColumns - 1) / kSumColumns),
                  static_cast<unsigned>(std::max<std::int64_t>(segments.count, 1)));
  if (segments.count > 0) column_sums_kernel<<<grid, kThreads, 0, stream_of(context)>>>(f, shape, segments, sums);
  check_cuda(cudaGetLastError(), "sums of columns");
  const std::int64_t width = shape.width, count = segments.count;
  each(context, width, [=] __device__(std::int64_t c) {
    S sum{};
    for (std::int64_t s = 0; s < count; ++s) sum = sum + sums[s * width + c];
    put(c, sum);
  });
}

// sums (segments): a block sums a segment, its lanes joined in order.
template <class S, class F>
__global__ void total_kernel(F f, std::int64_t count, Segments segments, S* sums) {
  __shared__ S of_lane[kThreads];
  const std::int64_t begin = std::int64_t{blockIdx.x} * segments.size;
  const std::int64_t end = begin + segments.size < count ? begin + segments.size : count;
  S sum{};
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) sum = sum + f(i);
  of_lane[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) of_lane[threadIdx.x] = of_lane[threadIdx.x] + of_lane[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = of_lane[0];
}

template <class F, class Put>
void total(const Context& context, std::int64_t count, const F& f, const Put& put) {
  using S = std::invoke_result_t<F, std::int64_t>;
  const Segments segments(count, 16 * kThreads, 1024);
  const Tensor scratch =
      Tensor::empty(context, {static_cast<std::int64_t>(sizeof(S)) * std::max<std::int64_t>(segments.count, 1)},
                    DType::u8, Lifetime::scratch);
  S* const sums = static_cast<S*>(scratch.raw());
  if (segments.count > 0)
    total_kernel<<<static_cast<unsigned>(segments.count), kThreads, 0, stream_of(context)>>>(f, count, segments, sums);
  check_cuda(cudaGetLastError(), "a sum");
  const std::int64_t parts = segments.count;
  each(context, 1, [=] __device__(std::int64_t) {
    S sum{};
    for (std::int64_t s = 0; s < parts; ++s) sum = sum + sums[s];
    put(sum);
  });
}

}  // namespace fovea::device
