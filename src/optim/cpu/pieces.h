#pragma once

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "optim/update_kernels.h"

namespace fovea::cpu {

// Elements [begin, end) of one tensor of a list.
struct Piece {
  std::size_t tensor;
  std::int64_t begin, end;

  std::int64_t count() const { return end - begin; }
};

// Cuts tensors into pieces of about equal work. The cut does not depend on the number of threads, so sums over pieces
// in order do not either.
template <class List, class Tensors>
std::vector<Piece> cut_into_pieces(const List& list, const Tensors& tensor_of) {
  constexpr std::int64_t kPiece = 1 << 14;
  std::vector<Piece> pieces;
  for (std::size_t t = 0; t < list.size(); ++t) {
    const std::int64_t count = tensor_of(list[t]).numel();
    for (std::int64_t i = 0; i < count; i += kPiece) pieces.push_back({t, i, std::min(count, i + kPiece)});
  }
  return pieces;
}

// What the elements of one parameter are updated with.
struct AdamWNumbers {
  kernels::AdamWConstants constants;
  kernels::AdamWPace pace;
  double shrink;
};

inline std::vector<Piece> cut_into_pieces(const std::vector<Tensor>& list) {
  return cut_into_pieces(list, [](const Tensor& t) -> const Tensor& { return t; });
}

}  // namespace fovea::cpu
