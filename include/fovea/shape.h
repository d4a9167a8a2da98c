#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "fovea/export.h"

namespace fovea {

// Sizes of a tensor, outermost first; at most kMaxRank of them. Rank 0 is a scalar.
class FOVEA_EXPORT Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  // dim(-1) is the last size.
  std::int64_t dim(int i) const { return dims_[index(i)]; }
  std::int64_t operator[](int i) const { return dim(i); }
  void set(int i, std::int64_t size) { dims_[index(i)] = size; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }

  std::int64_t numel() const;
  Shape with(int i, std::int64_t size) const;  // a copy with one size changed
  std::string text() const;                    // "(2, 3, 4)"

  bool operator==(const Shape& other) const = default;

 private:
  std::size_t index(int i) const { return static_cast<std::size_t>(i < 0 ? i + rank_ : i); }

  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> dims_{};  // unused entries stay 0, so that == compares them harmlessly
};

}  // namespace fovea
