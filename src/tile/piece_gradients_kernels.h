#pragma once

#include <span>

#include "fovea/tensor.h"
#include "tile/contract.h"

namespace fovea::tile::kernels {

// to (b or 1, heads or 1, width) += the sum of parts (pieces, heads, width) in the order of the pieces; the last axis
// is dense.
struct PieceGradients {
  Tensor parts, to;
  std::span<const Piece> pieces;
};
template <Device>
void add_piece_gradients(const Context& context, const PieceGradients& io);

}  // namespace fovea::tile::kernels
