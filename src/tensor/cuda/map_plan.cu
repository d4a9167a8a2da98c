#include "tensor/cuda/map_plan.h"

#include <algorithm>
#include <array>
#include <string>

namespace fovea::device {
namespace {

using Strides = std::array<std::int64_t, MapPlan::kOperands>;

// Of an operand along an axis of the loop: 0 where it is repeated.
std::int64_t stride_along(const Tensor& t, const Shape& shape, int axis) {
  const int own = axis - (shape.rank() - t.rank());
  if (!t.defined() || own < 0 || t.dim(own) == 1) return 0;
  if (t.dim(own) != shape.dim(axis))
    fail(ErrorCode::internal, "a loop over " + shape.text() + " was given " + t.shape().text(), "a kernel");
  return t.stride(own);
}

bool is_aligned(const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0; }

}  // namespace

MapPlan::MapPlan(std::span<const Tensor> operands) {
  const Shape& shape = operands[0].shape();
  count = shape.numel();
  if (count == 0) return;
  const std::size_t n = operands.size();
  if (n > kOperands) fail(ErrorCode::internal, "a loop over " + std::to_string(n) + " operands", "a kernel");
  std::array<std::int64_t, Shape::kMaxRank> sizes{};  // innermost first
  std::array<Strides, Shape::kMaxRank> strides{};
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape.dim(axis) == 1) continue;
    Strides here{};
    for (std::size_t k = 0; k < n; ++k) here[k] = stride_along(operands[k], shape, axis);
    const auto inner = static_cast<std::size_t>(std::max(rank - 1, 0));
    bool joins = rank > 0;
    for (std::size_t k = 0; k < n; ++k) joins = joins && here[k] == sizes[inner] * strides[inner][k];
    if (joins) {
      sizes[inner] *= shape.dim(axis);
    } else {
      sizes[static_cast<std::size_t>(rank)] = shape.dim(axis);
      strides[static_cast<std::size_t>(rank++)] = here;
    }
  }
  for (int axis = 0; axis < rank; ++axis) {
    const auto from = static_cast<std::size_t>(rank - 1 - axis);
    size[axis] = sizes[from];
    for (std::size_t k = 0; k < n; ++k) stride[k][axis] = strides[from][k];
  }
  has_packs = rank > 0 && sizes[0] % kPack == 0 && strides[0][0] == 1;
  for (std::size_t k = 0; has_packs && k < n; ++k) {
    has_packs = strides[0][k] == 0 || (strides[0][k] == 1 && is_aligned(operands[k]));
    for (int axis = 0; has_packs && axis < rank - 1; ++axis)
      has_packs = strides[0][k] == 0 || stride[k][axis] % kPack == 0;
  }
}

void MapPlan::widen(int ratio) {
  count /= ratio;
  size[rank - 1] /= ratio;
  for (auto& strides : stride)
    for (int axis = 0; axis < rank - 1; ++axis) strides[axis] /= ratio;
}

}  // namespace fovea::device
