#pragma once

#include "tile/cuda/simt.cuh"

// Scores as they are, row after row in memory: for whoever weighs and measures them himself.
namespace fovea::tile::cuda {

// Query blocks of a piece and heads of them, see ScoreRows. Turns: blocks of threads that share the keys of a row.
struct ScoreRowsAt {
  std::int32_t piece, first_block, first_head;
  std::int64_t rows, stride;
  float* to;  // [heads, rows, stride]
};

template <class R>
__global__ void __launch_bounds__(kSimtThreads) score_rows_kernel(const __grid_constant__ Call call, ScoreRowsAt at) {
  extern __shared__ char memory[];
  const PieceView& piece = call.pieces[at.piece];
  const ListView& list = piece.rows[0];
  const int parts = (list.own + kSimtRows<R> - 1) / kSimtRows<R>;
  const int block = static_cast<int>(blockIdx.x) / parts, part = static_cast<int>(blockIdx.x) % parts;
  Item item{at.piece, at.first_block + block, 0, 0, 0, 0, 0, 0};
  const OwnPart own(list, item.tile, 1, part, kSimtRows<R>, piece.nq);
  if (own.count == 0) return;
  item.begin = list.start[item.tile];
  for (std::int32_t e = item.begin; e < list.start[item.tile + 1]; ++e) item.blocks += list.entries[e].count;
  const auto head = at.first_head + static_cast<std::int32_t>(blockIdx.y);
  SimtTile<R, Points<R>, Role::row> tile(call, piece, SimtRoom<R>(memory, 0));
  const Sides<Role::row> sides{call, piece, head, call.kv_head_of(head)};
  float* to = at.to + (std::int64_t{blockIdx.y} * at.rows + block * list.own + own.offset) * at.stride;
  std::int64_t column = 0;
  unsigned turn = 0;
  walk(list, item, own, kSimtRows<R>, piece.nk, [&](const TileAt& t) {
    if (turn++ % gridDim.z == blockIdx.z) {
      tile.score(sides, t);
      tile.each([&](int m, int n, int i, int j) {
        if (i < t.own_count && j < t.streamed_count)
          to[i * at.stride + column + j] = static_cast<float>(tile.scores()[m][n]);
      });
    }
    column += t.streamed_count;
  });
}

}  // namespace fovea::tile::cuda
