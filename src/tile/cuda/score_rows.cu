#include "tile/cuda/score_rows.cuh"

#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {
namespace {

constexpr std::int64_t kMostBlocks = 528;  // four on each multiprocessor of an H200

template <class R>
void write(const Launch& launch, const Call& call, const Schedule& schedule, const ScoreRows& rows) {
  const PieceView& piece = schedule.host_pieces[static_cast<std::size_t>(rows.piece)];
  const std::int64_t own = piece.rows[0].own, parts = (own + kSimtRows<R> - 1) / kSimtRows<R>;
  const std::int64_t blocks = parts * rows.blocks, tiles = (piece.nk + kSimtRows<R> - 1) / kSimtRows<R>;
  const std::int64_t turns = std::clamp<std::int64_t>(kMostBlocks / (blocks * rows.heads), 1, tiles);
  auto* kernel = score_rows_kernel<R>;
  const std::size_t shared = allow_shared_memory<R>(reinterpret_cast<const void*>(kernel), call, 0, 0);
  const ScoreRowsAt at{rows.piece, rows.first_block, rows.first_head, rows.blocks * own, rows.stride, rows.to};
  const dim3 grid(to_grid(blocks), to_grid(rows.heads), to_grid(turns));
  kernel<<<grid, kSimtThreads, shared, launch.stream>>>(call, at);
  check_cuda(cudaGetLastError(), "rows of scores");
}

}  // namespace

void write_score_rows(const Launch& launch, const Call& call, const Schedule& schedule, const ScoreRows& rows) {
  if (schedule.host_pieces[static_cast<std::size_t>(rows.piece)].nk == 0) return;
  call.dtype == DType::f64 ? write<double>(launch, call, schedule, rows) : write<float>(launch, call, schedule, rows);
}

}  // namespace fovea::tile::cuda
