#include "tile/cpu/bias_gradient.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"

namespace fovea::tile {
namespace {

struct BiasBlock {
  const Piece* piece;
  std::int32_t query_block;
};

template <class R>
void clear(const BiasArray<void*>& bias, std::int64_t head, const BiasBlock& block, bool is_shared) {
  const Piece& piece = *block.piece;
  const Plan& plan = *piece.plan;
  R* base = static_cast<R*>(bias.data) + piece.batch * bias.batch + head * bias.head;
  const std::int64_t q0 = std::int64_t{block.query_block} * plan.tile_q, q1 = std::min(q0 + plan.tile_q, piece.nq);
  const auto clear_keys = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = q0; i < q1; ++i)
      for (std::int64_t j = begin; j < std::min(end, piece.nk); ++j)
        base[piece.query_row(i) * bias.query + piece.key_row(j) * bias.key] = 0;
  };
  if (is_shared) return clear_keys(0, piece.nk);
  std::int64_t done = 0;
  for (const Plan::Entry& entry : plan.row(block.query_block)) {
    clear_keys(done, std::int64_t{entry.block} * plan.tile_k);
    done = (std::int64_t{entry.block} + entry.count) * plan.tile_k;
  }
  clear_keys(done, piece.nk);
}

}  // namespace

BiasSharing sharing_of(const Problem& problem, const BiasArray<void*>& bias) {
  if (bias.data == nullptr) return {};
  if (bias.is_diagonal()) {
    const auto has_islands = [](const Piece& piece) { return piece.plan->islands.size() > 1; };
    return {true, true, std::any_of(problem.pieces.begin(), problem.pieces.end(), has_islands)};
  }
  const bool queries = bias.query == 0, keys = bias.key == 0;
  const bool units =
      (queries && keys) || (bias.head == 0 && problem.heads > 1) || (bias.batch == 0 && problem.pieces.size() > 1);
  return {queries, keys, units, bias.head == 0 && problem.heads > problem.kv_heads};
}

void clear_bias_gradient(const Context& context, const Problem& problem, const BiasArray<void*>& d_bias) {
  if (d_bias.data == nullptr || d_bias.is_diagonal()) return;
  const std::int64_t heads = d_bias.head == 0 ? 1 : problem.heads;
  std::vector<BiasBlock> blocks;  // of a head
  for (const Piece& piece : problem.pieces)
    for (std::int32_t block = 0; block < piece.plan->query_blocks(); ++block) blocks.push_back({&piece, block});
  const auto count = static_cast<std::int64_t>(blocks.size());
  const bool is_shared = sharing_of(problem, d_bias).any();
  const auto clear_block = [&](std::int64_t head, std::int64_t i) {
    const BiasBlock& block = blocks[static_cast<std::size_t>(i)];
    problem.dtype == DType::f64 ? clear<double>(d_bias, head, block, is_shared)
                                : clear<float>(d_bias, head, block, is_shared);
  };
  if (!is_shared)
    return parallel_for(context, heads * count, [&](std::int64_t i) { clear_block(i / count, i % count); });
  // Blocks of a head may have elements in common: one thread clears them all.
  parallel_for(context, heads, [&](std::int64_t head) {
    for (std::int64_t i = 0; i < count; ++i) clear_block(head, i);
  });
}

}  // namespace fovea::tile
