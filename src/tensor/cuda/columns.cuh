#pragma once

#include <algorithm>

#include "tensor/cuda/rows.cuh"

namespace fovea::device {

// Rows cut into segments that are summed at once; by the shape alone. There is always one.
struct Segments {
  static constexpr std::int64_t kRows = 64, kMost = 512;

  explicit Segments(std::int64_t rows, std::int64_t least = kRows, std::int64_t most = kMost) : rows(rows) {
    const std::int64_t wanted = std::clamp<std::int64_t>(rows / std::max<std::int64_t>(1, least), 1, most);
    size = std::max<std::int64_t>(1, (rows + wanted - 1) / wanted);
    count = std::max<std::int64_t>(1, (rows + size - 1) / size);
  }
  std::int64_t rows, size = 0, count = 0;
};

// What f gives, as the host sees it: of a lambda of the card only where that is written down.
template <class F, class... Arguments>
struct Result {
  static_assert(!__nv_is_extended_device_lambda_closure_type(F) ||
                    __nv_is_extended_device_lambda_with_preserved_return_type(F),
                "say what the lambda gives: [=] __device__(std::int64_t i) -> R");
  using type = std::invoke_result_t<F, Arguments...>;
};

struct ColumnShape {
  std::int64_t rows, width;
};

inline constexpr int kSumColumns = 32, kSumLanes = kThreads / kSumColumns;

// Lets `store` have the sums of each segment: 8 lanes of a column take every 8th row, and are joined in order.
template <class S, class F, class Store>
__global__ void column_sums_kernel(F f, ColumnShape shape, Segments segments, Store store) {
  __shared__ S of_lane[kSumLanes][kSumColumns + 1];
  const int column = static_cast<int>(threadIdx.x) % kSumColumns, lane = static_cast<int>(threadIdx.x) / kSumColumns;
  const std::int64_t c = std::int64_t{blockIdx.x} * kSumColumns + column, segment = blockIdx.y;
  const std::int64_t begin = segment * segments.size;
  const std::int64_t end = begin + segments.size < shape.rows ? begin + segments.size : shape.rows;
  S sum{};
  if (c < shape.width)
    for (std::int64_t r = begin + lane; r < end; r += kSumLanes) sum = sum + f(r, c);
  of_lane[lane][column] = sum;
  __syncthreads();
  if (lane != 0 || c >= shape.width) return;
  for (int l = 1; l < kSumLanes; ++l) sum = sum + of_lane[l][column];
  store(segment, c, sum);
}

template <class S, class F, class Store>
void sum_segments(const Queue& queue, const ColumnShape& shape, const Segments& segments, const F& f,
                  const Store& store) {
  const dim3 grid(static_cast<unsigned>((shape.width + kSumColumns - 1) / kSumColumns),
                  static_cast<unsigned>(segments.count));
  column_sums_kernel<S><<<grid, kThreads, 0, queue.stream>>>(f, shape, segments, store);
  check_cuda(cudaGetLastError(), "sums of columns");
}

template <class F, class Put>
void column_sums(const Context& context, const ColumnShape& shape, const F& f, const Put& put) {
  using S = typename Result<F, std::int64_t, std::int64_t>::type;
  if (shape.width <= 0) return;
  const auto finish = [=] __device__(std::int64_t, std::int64_t c, const S& sum) { put(c, sum); };
  const Segments segments(shape.rows);
  if (segments.count == 1) return sum_segments<S>(context, shape, segments, f, finish);
  const std::int64_t width = shape.width, count = segments.count;
  const DeviceScratch scratch(launch_of(context), sizeof(S) * static_cast<std::size_t>(count * width));
  S* const sums = static_cast<S*>(scratch.data());
  sum_segments<S>(context, shape, segments, f, [=] __device__(std::int64_t segment, std::int64_t c, const S& sum) {
    sums[segment * width + c] = sum;
  });
  sum_segments<S>(
      context, {count, width}, Segments(count, count),
      [=] __device__(std::int64_t r, std::int64_t c) { return sums[r * width + c]; }, finish);
}

// Lets `store` have the sum of each segment: the threads of a block take every 256th element, and are joined in order.
template <class S, class F, class Store>
__global__ void total_kernel(F f, std::int64_t count, Segments segments, Store store) {
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
  if (threadIdx.x == 0) store(blockIdx.x, of_lane[0]);
}

// The parts of a total.
template <class S>
struct StorePart {
  S* sums;
  __device__ void operator()(std::int64_t i, const S& sum) const { sums[i] = sum; }
};
template <class S>
struct LoadPart {
  const S* sums;
  __device__ S operator()(std::int64_t i) const { return sums[i]; }
};
template <class S, class Put>
struct PutTotal {
  Put put;
  __device__ void operator()(std::int64_t, const S& sum) const { put(sum); }
};

template <class F, class Put>
void total(const Context& context, std::int64_t count, const F& f, const Put& put) {
  using S = typename Result<F, std::int64_t>::type;
  const cudaStream_t stream = stream_of(context);
  const Segments segments(count, 16 * kThreads, 1024);
  const auto parts = static_cast<unsigned>(segments.count);
  const DeviceScratch scratch(launch_of(context), sizeof(S) * parts);
  S* const sums = static_cast<S*>(scratch.data());
  const PutTotal<S, Put> finish{put};
  if (parts == 1) {
    total_kernel<S><<<1, kThreads, 0, stream>>>(f, count, segments, finish);
  } else {
    total_kernel<S><<<parts, kThreads, 0, stream>>>(f, count, segments, StorePart<S>{sums});
    total_kernel<S><<<1, kThreads, 0, stream>>>(LoadPart<S>{sums}, parts, Segments(parts, parts), finish);
  }
  check_cuda(cudaGetLastError(), "a sum");
}

}  // namespace fovea::device
