#pragma once

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "optim/update_kernels.h"

namespace fovea::cpu {

// Elements [begin, end) of one tensor of a list.
struct ElementRange {
  std::size_t tensor;
  std::int64_t begin, end;

  std::int64_t count() const { return end - begin; }
};

// Cuts tensors into ranges of about equal work. The cut does not depend on the number of threads, so sums over ranges
// in order do not either.
template <class List, class Tensors>
std::vector<ElementRange> cut_into_ranges(const List& list, const Tensors& tensor_of) {
  constexpr std::int64_t kRange = 1 << 14;
  std::vector<ElementRange> ranges;
  for (std::size_t t = 0; t < list.size(); ++t) {
    const std::int64_t count = tensor_of(list[t]).numel();
    for (std::int64_t i = 0; i < count; i += kRange) ranges.push_back({t, i, std::min(count, i + kRange)});
  }
  return ranges;
}

// What the elements of one parameter are updated with.
struct AdamWNumbers {
  kernels::AdamWConstants constants;
  kernels::AdamWPace pace;
  double shrink;
};

inline std::vector<ElementRange> cut_into_ranges(const std::vector<Tensor>& list) {
  return cut_into_ranges(list, [](const Tensor& t) -> const Tensor& { return t; });
}

}  // namespace fovea::cpu
