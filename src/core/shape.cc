#include "fovea/shape.h"

#include <algorithm>

#include "fovea/error.h"

namespace fovea {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > kMaxRank) fail(ErrorCode::shape, "a tensor has at most 6 axes, got " + std::to_string(dims.size()));
  std::int64_t total = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      fail(ErrorCode::shape, "negative size " + std::to_string(dims[i]) + " on axis " + std::to_string(i));
    if (__builtin_mul_overflow(total, std::max<std::int64_t>(dims[i], 1), &total))
      fail(ErrorCode::shape, "tensor size overflows 64 bits");
    dims_[i] = dims[i];
  }
}

std::int64_t Shape::numel() const {
  std::int64_t total = 1;
  for (std::int64_t size : dims()) total *= size;
  return total;
}

Shape Shape::with(int i, std::int64_t size) const {
  Shape copy = *this;
  copy.set(i, size);
  return copy;
}

std::string Shape::text() const {
  std::string out = "(";
  for (int i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string(dim(i));
  return out + (rank_ == 1 ? ",)" : ")");
}

}  // namespace fovea
