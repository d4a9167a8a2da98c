#pragma once

#include <algorithm>
#include <string>

#include "core/cuda/slabs.h"
#include "tile/cuda/bias_gradient.cuh"
#include "tile/cuda/simt.cuh"
#include "tile/cuda/simt_launch.h"

namespace fovea::tile::cuda {

// The shared memory of a tile with results of d1 and of d2 columns.
template <class R>
std::size_t allow_shared_memory(const void* kernel, const Call& call, std::int64_t d1, std::int64_t d2) {
  const std::size_t bytes = SimtRoom<R>::bytes(d1, d2), empty = SimtRoom<R>::bytes(0, 0);
  if (bytes <= 48 * 1024) return bytes;
  const auto room = static_cast<std::size_t>(current_card(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (bytes > room) {
    const std::size_t column = SimtRoom<R>::bytes(d1 > 0, d2 > 0) - empty;
    fail(ErrorCode::unsupported,
         "heads of " + std::to_string(call.d_k) + " and " + std::to_string(call.d_v) + " in " +
             std::string(name_of(call.dtype)) + ": a tile takes " + std::to_string(bytes >> 10) +
             " KB of shared memory, this card has " + std::to_string(room >> 10),
         "tiled attention on CUDA",
         "heads of up to " + std::to_string((room - empty) / column / 8 * 8) + ", or --device cpu");
  }
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
             "tiled attention");
  return bytes;
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
  auto* kernel = simt_kernel<R, W, kRole>;
  const std::size_t bytes = allow_shared_memory<R>(reinterpret_cast<const void*>(kernel), call, d1, d2);
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
  const auto count = std::ssize(schedule.host_pieces);
  if (owner != BiasOwner::diagonal)
    each_slab(count, [&](std::int64_t first, unsigned many) {
      const dim3 grid(256, to_grid(call.d_bias.head == 0 ? 1 : call.heads), many);
      clear_bias_kernel<R><<<grid, 256, 0, launch.stream>>>(from_piece(call, first));
    });
  auto* kernel = bias_gradient_kernel<R, W>;
  const std::size_t bytes = allow_shared_memory<R>(reinterpret_cast<const void*>(kernel), call, 0, 0);
  const auto add = [&](std::int64_t first, unsigned many) {
    std::int64_t blocks = 0;
    for (std::int64_t i = first; i < first + many; ++i)
      blocks = std::max(blocks, bias_blocks<R>(owner, schedule.host_pieces[static_cast<std::size_t>(i)]));
    if (blocks == 0) return;
    const dim3 grid(to_grid(blocks), to_grid(sums_heads ? 1 : call.heads), many);
    for (std::int32_t parity = 0; parity < (owner == BiasOwner::diagonal ? 2 : 1); ++parity)
      kernel<<<grid, kSimtThreads, bytes, launch.stream>>>(from_piece(call, first), {owner, sums_heads, parity, 0, 0});
  };
  if (apart)
    each_slab(count, add);
  else
    for (std::int64_t p = 0; p < count; ++p) add(p, 1);
  check_cuda(cudaGetLastError(), "the gradient of a bias");
}

template <class R, class W>
inline constexpr SimtKernels kSimtKernels{run_simt<R, W>, run_bias<R, W>};

}  // namespace fovea::tile::cuda
