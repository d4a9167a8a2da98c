#pragma once

#include <algorithm>

#include "tensor/cuda/map.cuh"
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

// Of a block: columns that it takes, and lanes that share each. Joins of parts have few rows and want many blocks.
inline constexpr int kSumColumns = 32, kJoinColumns = 8, kSumPacks = 32;

// Lets `store` have the sums of each segment: the lanes of a column take every so many rows, and are joined in order.
template <int kColumns, class S, class F, class Store>
__global__ void column_sums_kernel(F f, ColumnShape shape, Segments segments, Store store) {
  constexpr int kLanes = kThreads / kColumns;
  __shared__ S of_lane[kLanes][kColumns + 1];
  const int column = static_cast<int>(threadIdx.x) % kColumns, lane = static_cast<int>(threadIdx.x) / kColumns;
  const std::int64_t c = std::int64_t{blockIdx.x} * kColumns + column, segment = blockIdx.y;
  const std::int64_t begin = segment * segments.size;
  const std::int64_t end = begin + segments.size < shape.rows ? begin + segments.size : shape.rows;
  S sum{};
  if (c < shape.width)
#pragma unroll 4
    for (std::int64_t r = begin + lane; r < end; r += kLanes) sum = sum + f(r, c);
  of_lane[lane][column] = sum;
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) of_lane[lane][column] = of_lane[lane][column] + of_lane[lane + half][column];
  }
  if (lane == 0 && c < shape.width) store(segment, c, of_lane[0][column]);
}

template <int kColumns, class S, class F, class Store>
void sum_segments(const Queue& queue, const ColumnShape& shape, const Segments& segments, const F& f,
                  const Store& store) {
  const dim3 grid(static_cast<unsigned>((shape.width + kColumns - 1) / kColumns),
                  static_cast<unsigned>(segments.count));
  column_sums_kernel<kColumns, S><<<grid, kThreads, 0, queue.stream>>>(f, shape, segments, store);
  check_cuda(cudaGetLastError(), "sums of columns");
}

template <int kColumns, class S, class Put>
void join_by(const Queue& queue, const ColumnShape& shape, const S* parts, const Put& put) {
  const std::int64_t width = shape.width;
  sum_segments<kColumns, S>(
      queue, shape, Segments(shape.rows, std::max<std::int64_t>(1, shape.rows)),
      [=] __device__(std::int64_t r, std::int64_t c) { return parts[r * width + c]; },
      [=] __device__(std::int64_t, std::int64_t c, const S& sum) { put(c, sum); });
}

// put(c, the sum of parts (shape.rows, shape.width) over all rows).
template <class S, class Put>
void join_parts(const Queue& queue, const ColumnShape& shape, const S* parts, const Put& put) {
  constexpr std::int64_t kNarrow = 2048;  // more columns make blocks enough
  if (shape.width <= 0) return;
  if (shape.width <= kNarrow)
    join_by<kJoinColumns>(queue, shape, parts, put);
  else
    join_by<kSumColumns>(queue, shape, parts, put);
}

template <class F, class Put>
void column_sums(const Context& context, const ColumnShape& shape, const F& f, const Put& put) {
  using S = typename Result<F, std::int64_t, std::int64_t>::type;
  if (shape.width <= 0) return;
  const Segments segments(shape.rows);
  if (segments.count == 1)
    return sum_segments<kSumColumns, S>(context, shape, segments, f,
                                        [=] __device__(std::int64_t, std::int64_t c, const S& sum) { put(c, sum); });
  const std::int64_t width = shape.width, count = segments.count;
  const DeviceScratch scratch(launch_of(context), sizeof(S) * static_cast<std::size_t>(count * width));
  S* const sums = static_cast<S*>(scratch.data());
  sum_segments<kSumColumns, S>(
      context, shape, segments, f,
      [=] __device__(std::int64_t segment, std::int64_t c, const S& sum) { sums[segment * width + c] = sum; });
  join_parts(context, {count, width}, sums, put);
}

// What the lanes of a block have summed, of_lane (lanes, width), to the sums over lanes in their order.
template <class R>
__device__ inline R join_lanes(const R* of_lane, int lanes, int width, int column) {
  R sum = of_lane[column];
#pragma unroll 8
  for (int lane = 1; lane < lanes; ++lane) sum += of_lane[lane * width + column];
  return sum;
}

// sums (segments, width) of f(r, c, x), which gives the numbers of the eight columns from c on: threads that take a
// pack each share a row, and there are as many rows at once as fit into a block.
template <class R, class F>
__global__ void pack_sums_kernel(F f, ColumnShape shape, Segments segments, R* sums) {
  __shared__ R of_lane[kThreads * kPack];
  const std::int64_t first = std::int64_t{blockIdx.x} * kSumPacks * kPack, left = (shape.width - first) / kPack;
  const int packs = static_cast<int>(left < kSumPacks ? left : kSumPacks), lanes = kThreads / packs;
  const int pack = static_cast<int>(threadIdx.x) % packs, lane = static_cast<int>(threadIdx.x) / packs;
  const std::int64_t begin = blockIdx.y * segments.size;
  const std::int64_t end = begin + segments.size < shape.rows ? begin + segments.size : shape.rows;
  R sum[kPack] = {};
  if (lane < lanes)
#pragma unroll 4
    for (std::int64_t r = begin + lane; r < end; r += lanes) {
      R x[kPack];
      f(r, first + pack * kPack, x);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum[e] += x[e];
    }
  const int width = packs * kPack;
  if (lane < lanes)
#pragma unroll
    for (int e = 0; e < kPack; ++e) of_lane[lane * width + pack * kPack + e] = sum[e];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < width; c += kThreads)
    sums[blockIdx.y * shape.width + first + c] = join_lanes(of_lane, lanes, width, c);
}

// column_sums of rows that are a multiple of 8 wide, by packs: put(c, the sum of what f gives for column c).
template <class R, class F, class Put>
void pack_sums(const Context& context, const ColumnShape& shape, const F& f, const Put& put) {
  constexpr std::int64_t kRowsOfLane = 4, kMost = 1024;
  if (shape.width <= 0) return;
  const std::int64_t packs = std::min<std::int64_t>(kSumPacks, shape.width / kPack);
  const Segments segments(shape.rows, kThreads / packs * kRowsOfLane, kMost);
  const DeviceScratch scratch(launch_of(context), sizeof(R) * static_cast<std::size_t>(segments.count * shape.width));
  R* const sums = static_cast<R*>(scratch.data());
  const dim3 grid(static_cast<unsigned>((shape.width / kPack + kSumPacks - 1) / kSumPacks),
                  static_cast<unsigned>(segments.count));
  pack_sums_kernel<<<grid, kThreads, 0, stream_of(context)>>>(f, shape, segments, sums);
  check_cuda(cudaGetLastError(), "sums of columns");
  join_parts(context, {segments.count, shape.width}, sums, put);
}

// Lets `store` have the sum of each segment: the threads of a block take every 256th element, and are joined in order.
template <class S, class F, class Store>
__global__ void total_kernel(F f, std::int64_t count, Segments segments, Store store) {
  __shared__ S of_lane[kThreads];
  const std::int64_t begin = std::int64_t{blockIdx.x} * segments.size;
  const std::int64_t end = begin + segments.size < count ? begin + segments.size : count;
  S sum{};
#pragma unroll 4
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
