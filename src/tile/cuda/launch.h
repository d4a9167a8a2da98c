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

// Scores of `blocks` query blocks of a piece and of `heads` heads, -infinity where a pair is hidden, into memory of the
// card: to[heads, blocks of whole tiles, stride]. The keys that a block of the plan reads stand one after the other, as
// its list has them.
struct ScoreRows {
  std::int32_t piece, first_block, blocks, first_head, heads;
  float* to;
  std::int64_t stride;
};
void score_rows(const Launch& launch, const Problem& problem, const In& q, const In& k, const ScoreRows& rows);

// The tile that plans for the card are compiled with. Any other runs too, on the portable kernels.
constexpr TileSize kTile{64, 64};

}  // namespace fovea::tile::cuda
