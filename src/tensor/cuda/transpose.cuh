#pragma once

#include <optional>

#include "tensor/cuda/elements.cuh"
#include "tensor/cuda/map_plan.h"

namespace fovea::device {

// A copy whose source is dense along another axis than its target: tiles go through shared memory, so that both are
// read and written in whole lines.
struct TransposePlan {
  static constexpr int kSide = 32, kLeast = 16;

  std::int64_t along = 0, across = 0;  // sizes of the axes dense in the target, and in the source
  std::int64_t along_from = 0, across_to = 0;
  int outer = 0;
  std::int64_t count = 1;  // of all other axes
  std::int64_t size[Shape::kMaxRank] = {}, to[Shape::kMaxRank] = {}, from[Shape::kMaxRank] = {};

  std::int64_t tiles_along() const { return (along + kSide - 1) / kSide; }
  std::int64_t tiles() const { return tiles_along() * ((across + kSide - 1) / kSide) * count; }
};

// Nothing where the axes are too short, or the same.
inline std::optional<TransposePlan> transpose_of(const MapPlan& plan) {
  TransposePlan out;
  const int last = plan.rank - 1;
  if (plan.rank < 2 || plan.stride[0][last] != 1 || plan.stride[1][last] == 1) return {};
  for (int axis = 0; axis < last; ++axis) {
    if (out.across == 0 && plan.stride[1][axis] == 1) {
      out.across = plan.size[axis];
      out.across_to = plan.stride[0][axis];
      continue;
    }
    out.size[out.outer] = plan.size[axis];
    out.to[out.outer] = plan.stride[0][axis];
    out.from[out.outer++] = plan.stride[1][axis];
    out.count *= plan.size[axis];
  }
  out.along = plan.size[last];
  out.along_from = plan.stride[1][last];
  if (out.across < TransposePlan::kLeast || out.along < TransposePlan::kLeast || out.tiles() > INT32_MAX) return {};
  return out;
}

template <class Word>
__global__ void transpose_kernel(TransposePlan plan, std::int64_t tiles_along, Word* to, const Word* from) {
  constexpr int kSide = TransposePlan::kSide, kRows = kThreads / kSide;
  __shared__ Word tile[kSide][kSide + 1];
  const int column = static_cast<int>(threadIdx.x) % kSide, first = static_cast<int>(threadIdx.x) / kSide;
  const std::int64_t tiles_across = (plan.across + kSide - 1) / kSide;
  const std::int64_t x0 = blockIdx.x % tiles_along * kSide, y0 = blockIdx.x / tiles_along % tiles_across * kSide;
  std::int64_t rest = blockIdx.x / tiles_along / tiles_across;
  for (int axis = plan.outer - 1; axis >= 0; --axis) {
    to += rest % plan.size[axis] * plan.to[axis];
    from += rest % plan.size[axis] * plan.from[axis];
    rest /= plan.size[axis];
  }
  for (int row = first; row < kSide; row += kRows)
    if (x0 + row < plan.along && y0 + column < plan.across)
      tile[row][column] = from[(x0 + row) * plan.along_from + y0 + column];
  __syncthreads();
  for (int row = first; row < kSide; row += kRows)
    if (y0 + row < plan.across && x0 + column < plan.along)
      to[(y0 + row) * plan.across_to + x0 + column] = tile[column][row];
}

template <class Word>
void transpose(const Queue& queue, const TransposePlan& plan, void* to, const void* from) {
  transpose_kernel<<<static_cast<unsigned>(plan.tiles()), kThreads, 0, queue.stream>>>(
      plan, plan.tiles_along(), static_cast<Word*>(to), static_cast<const Word*>(from));
  check_cuda(cudaGetLastError(), "a copy");
}

}  // namespace fovea::device
