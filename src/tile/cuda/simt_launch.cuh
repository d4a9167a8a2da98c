#pragma once

#include <algorithm>

#include "tile/cuda/bias_gradient.cuh"
#include "tile/cuda/simt.cuh"
#include "tile/cuda/simt_launch.h"

namespace fovea::tile::cuda {

inline void allow_shared_memory(const void* kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) {
    cudaGetLastError();
    fail(ErrorCode::unsupported, "heads so wide that a tile does not fit this card's shared memory", "tiled attention",
         "widths up to 256, in f64 up to 128, or the CPU");
  }
}

inline constexpr std::int64_t kCheckers = 132;  // blocks that look for flags: one on each multiprocessor of an H200

inline unsigned to_grid(std::int64_t n) { return static_cast<unsigned>(n); }

template <class R, class W, Role kRole>
void run_role(const Launch& launch, Call call, const Schedule& schedule, int group) {
  constexpr bool kByColumns = kRole == Role::column;
  const Schedule::Items& items = (kByColumns ? schedule.by_columns : schedule.by_rows)[group - 1];
  if (items.count == 0) return;
  call.items = items.data;
  const int parts = group * ((schedule.largest_own[kByColumns] + kSimtRows<R> - 1) / kSimtRows<R>);
  const std::int64_t d1 = kRole == Role::forward ? call.d_v : call.d_k, d2 = kByColumns ? call.d_v : 0;
  const std::size_t bytes = SimtRoom<R>::bytes(d1, d2);
  auto* kernel = simt_kernel<R, W, kRole>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
  const SimtWork work{group, parts, items.count, kByColumns ? call.kv_heads : call.heads};
  const std::int64_t blocks = call.flags == nullptr ? work.count() : std::min<std::int64_t>(work.count(), kCheckers);
  kernel<<<to_grid(blocks), kSimtThreads, bytes, launch.stream>>>(call, work);
  check_cuda(cudaGetLastError(), "tiled attention");
}

template <class R, class W>
void run_simt(const Launch& launch, const Call& call, const Schedule& schedule, Role role, int group) {
  switch (role) {
    case Role::forward: return run_role<R, W, Role::forward>(launch, call, schedule, group);
    case Role::row: return run_role<R, W, Role::row>(launch, call, schedule, group);
    case Role::column: return run_role<R, W, Role::column>(launch, call, schedule, group);
  }
}

// Blocks of the grid that one piece needs.
template <class R>
std::int64_t bias_blocks(BiasOwner owner, const PieceView& piece) {
  const auto parts = [](std::int64_t n, std::int64_t tile) {
    return (n + tile - 1) / tile * ((tile + kSimtRows<R> - 1) / kSimtRows<R>);
  };
  const std::int64_t queries = parts(piece.nq, piece.rows[0].own), keys = parts(piece.nk, piece.rows[0].streamed);
  switch (owner) {
    case BiasOwner::head: return 1;
    case BiasOwner::keys: return keys;
    case BiasOwner::diagonal: return (queries + keys) / 2 + 1;
    default: return queries;
  }
}

template <class R, class W>
void run_bias(const Launch& launch, const Call& call, const Schedule& schedule) {
  const BiasOwner owner = owner_of(call.d_bias);
  const bool sums_heads = owner != BiasOwner::diagonal && call.d_bias.head == 0 && call.heads > 1;
  const bool apart = pieces_are_apart(call.d_bias, schedule);
  const auto count = static_cast<std::int32_t>(schedule.host_pieces.size());
  if (owner != BiasOwner::diagonal)
    clear_bias_kernel<R>
        <<<dim3(256, to_grid(call.d_bias.head == 0 ? 1 : call.heads), to_grid(count)), 256, 0, launch.stream>>>(call);
  auto* kernel = bias_gradient_kernel<R, W>;
  const std::size_t bytes = SimtRoom<R>::bytes(0, 0);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
  for (std::int32_t p = apart ? -1 : 0; p < (apart ? 0 : count); ++p) {
    std::int64_t blocks = 0;
    for (std::int32_t i = apart ? 0 : p; i < (apart ? count : p + 1); ++i)
      blocks = std::max(blocks, bias_blocks<R>(owner, schedule.host_pieces[static_cast<std::size_t>(i)]));
    if (blocks == 0) continue;
    const dim3 grid(to_grid(blocks), to_grid(sums_heads ? 1 : call.heads), to_grid(apart ? count : 1));
    for (std::int32_t parity = 0; parity < (owner == BiasOwner::diagonal ? 2 : 1); ++parity)
      kernel<<<grid, kSimtThreads, bytes, launch.stream>>>(call, {owner, p, sums_heads, parity, 0, 0});
  }
  check_cuda(cudaGetLastError(), "the gradient of a bias");
}

template <class R, class W>
inline constexpr SimtKernels kSimtKernels{run_simt<R, W>, run_bias<R, W>};

}  // namespace fovea::tile::cuda
