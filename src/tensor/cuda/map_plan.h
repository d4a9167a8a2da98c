#pragma once

#include <cstdint>
#include <span>

#include "fovea/tensor.h"

namespace fovea::device {

// How a loop over the elements of a shape meets its operands, of which the first has that shape: as few axes as their
// strides allow, the last one innermost.
struct MapPlan {
  static constexpr int kPack = 8;      // neighbours that a thread takes at once
  static constexpr int kOperands = 8;  // at most

  explicit MapPlan(std::span<const Tensor> operands);

  std::int64_t count = 0;
  int rank = 0;
  bool has_packs = false;  // every operand has eight neighbours side by side, or one number for them
  std::int64_t size[Shape::kMaxRank] = {};
  std::int64_t stride[kOperands][Shape::kMaxRank] = {};

  // Takes `ratio` neighbours, 2 to kPack, for one element, where there are packs and all operands go along.
  void widen(int ratio);

  // Where element i of the loop is in each of the operands.
  template <int kAll>
  __device__ void place(std::int64_t i, std::int64_t (&at)[kAll]) const {
#pragma unroll
    for (int k = 0; k < kAll; ++k) at[k] = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      std::int64_t index = i;
      if (axis > 0) {
        const std::int64_t rest =
            count < INT32_MAX ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(size[axis]) : i / size[axis];
        index = i - rest * size[axis];
        i = rest;
      }
#pragma unroll
      for (int k = 0; k < kAll; ++k) at[k] += index * stride[k][axis];
    }
  }
  __device__ bool is_along(int operand) const { return rank > 0 && stride[operand][rank - 1] == 1; }
};

}  // namespace fovea::device
