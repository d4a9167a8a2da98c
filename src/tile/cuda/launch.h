#pragma once

#include "core/cuda/launch.h"
#include "tile/contract.h"
#include "tile/row_rule.h"

// The pairwise engine on a card: the contract of tile/contract.h and tile/row_rule.h, arrays, slopes and biases in
// device memory, pieces and plans on the host. Plans and lists of pieces are uploaded when first seen and kept. Calls
// return before the work is done; everything runs in the order of the stream, and sums have a fixed order.
namespace fovea::tile::cuda {

using namespace device;  // NOLINT: what the engines on a card share

void forward(const Launch& launch, const Problem& problem, const Forward& io);
void backward(const Launch& launch, const Problem& problem, const Backward& io);
void rule_forward(const Launch& launch, const Problem& problem, const RowRule& rule, const Forward& io);
void rule_backward(const Launch& launch, const Problem& problem, const RowRule& rule, const Backward& io);

// The tile that plans for the card are compiled with. Any other runs too, on the portable kernels.
constexpr TileSize kTile{64, 64};

}  // namespace fovea::tile::cuda
