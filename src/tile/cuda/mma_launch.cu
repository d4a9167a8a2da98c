#include "tile/cuda/mma_launch.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "core/cuda/slabs.h"
#include "tile/cuda/bias_gradient.cuh"
#include "tile/cuda/merge.cuh"

namespace fovea::tile::cuda {

extern const std::array<MmaKernel, kHopperKernels> hopper_kernels_bf16, hopper_kernels_f16;
extern const std::array<MmaKernel, kDiagonalKernels> diagonal_kernels_bf16, diagonal_kernels_f16;
extern const MmaKernel mma_forward_bf16_32[3], mma_forward_f16_32[3], mma_row_bf16_32[3], mma_row_f16_32[3],
    mma_column_bf16_32[3], mma_column_f16_32[3];
extern const MmaKernel mma_forward_bf16_64[3], mma_forward_bf16_128[3], mma_forward_bf16_256[1];
extern const MmaKernel mma_forward_f16_64[3], mma_forward_f16_128[3], mma_forward_f16_256[1];
extern const MmaKernel mma_row_bf16_64[3], mma_row_bf16_128[2], mma_column_bf16_64[3], mma_column_bf16_128[2];
extern const MmaKernel mma_bias_bf16[3], mma_bias_f16[3];
extern const MmaKernel mma_row_f16_64[3], mma_row_f16_128[2], mma_column_f16_64[3], mma_column_f16_128[2];

namespace {

constexpr int kBlockRows = kTile.query;

std::span<const MmaKernel> kernels_of(DType dtype, Role role, int width) {
  const bool bf16 = dtype == DType::bf16;
  if (role == Role::forward) {
    if (width <= 32) return bf16 ? mma_forward_bf16_32 : mma_forward_f16_32;
    if (width <= 64) return bf16 ? mma_forward_bf16_64 : mma_forward_f16_64;
    if (width <= 128) return bf16 ? mma_forward_bf16_128 : mma_forward_f16_128;
    if (width <= 256) return bf16 ? mma_forward_bf16_256 : mma_forward_f16_256;
    return {};
  }
  const bool row = role == Role::row;
  if (width <= 32)
    return row ? (bf16 ? mma_row_bf16_32 : mma_row_f16_32) : (bf16 ? mma_column_bf16_32 : mma_column_f16_32);
  if (width <= 64)
    return row ? (bf16 ? mma_row_bf16_64 : mma_row_f16_64) : (bf16 ? mma_column_bf16_64 : mma_column_f16_64);
  if (width <= 128)
    return row ? (bf16 ? mma_row_bf16_128 : mma_row_f16_128) : (bf16 ? mma_column_bf16_128 : mma_column_f16_128);
  return {};
}

bool is_general(const Call& call) {
  return call.weight != Weight::softmax || !(call.scale > 0) || call.bias.data != nullptr || call.alibi != nullptr ||
         call.has_dropout;
}

// Two blocks a tile read every fragment of the streamed rows half as often. They pay when there are enough of them to
// fill the card, and their lists are longer than what one tile's start and end cost.
int best_tiles(const Schedule::Items (&items)[2], std::int64_t heads) {
  constexpr std::int64_t kFull = 2 * 132;
  constexpr double kLong = 3.0;
  return items[1].count * heads >= kFull && items[1].mean_blocks >= kLong ? 2 : 1;
}

// Can this device run code of sm_90a, and was any built?
bool has_warpgroups() {
#if defined(FOVEA_CUDA_HOPPER)
  return current_card(cudaDevAttrComputeCapabilityMajor) == 9;
#else
  return false;
#endif
}

const MmaKernel* find(std::span<const MmaKernel> kernels, Variant variant, Role role, int width, int tiles) {
  const int room = current_card(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  const MmaKernel* found = nullptr;
  for (const MmaKernel& kernel : kernels) {
    if (kernel.variant != variant || kernel.role != role || kernel.width < width || kernel.bytes > room) continue;
    if (found == nullptr || kernel.width < found->width || (kernel.width == found->width && kernel.tiles == tiles))
      found = &kernel;
  }
  return found;
}

// By single blocks, which are the fastest of those measured for softmax.
const MmaKernel* choose_hopper(const Call& call, Role role, int width) {
  if (!has_warpgroups()) return nullptr;
  return find(call.dtype == DType::bf16 ? hopper_kernels_bf16 : hopper_kernels_f16, Variant::hopper, role, width, 1);
}

bool takes(const Call& call, const Schedule& schedule) {
  return (call.dtype == DType::bf16 || call.dtype == DType::f16) && schedule.is_standard && call.d_k % 8 == 0 &&
         call.d_v % 8 == 0;
}

// Gradients of outputs in f32 are rounded before their row statistic is made of them, so that nothing is left where the
// two cancel. Weights without a statistic have nothing to that end, and f16 has not the range.
bool takes_backward(const Call& call) {
  return is_aligned(call.q) && is_aligned(call.k) && is_aligned(call.v) && is_aligned(call.d_o, call.gradient_type) &&
         is_aligned(call.dq) && is_aligned(call.dk) && is_aligned(call.dv) &&
         (call.output_type == call.dtype ||
          (call.dtype == DType::bf16 && has_statistic(call.weight) && call.rest.data == nullptr));
}

const MmaKernel* choose_diagonal(const Call& call, const Schedule& schedule) {
  if (!schedule.is_diagonal || is_general(call) || call.heads != call.kv_heads || !takes(call, schedule) ||
      !takes_backward(call))
    return nullptr;
  return find(call.dtype == DType::bf16 ? diagonal_kernels_bf16 : diagonal_kernels_f16, Variant::softmax, Role::row,
              std::max(call.d_k, call.d_v), 1);
}

const MmaKernel* choose(const Call& call, const Schedule& schedule, Role role) {
  if (!takes(call, schedule)) return nullptr;
  const bool by_columns = role == Role::column;
  const int width = std::max(call.d_k, call.d_v);
  const auto& items = by_columns ? schedule.by_columns : schedule.by_rows;
  const int tiles = best_tiles(items, by_columns ? call.kv_heads : call.heads);
  const auto kernels = kernels_of(call.dtype, role, width);
  const MmaKernel* found = nullptr;
  if (!is_general(call)) {
    found = choose_hopper(call, role, width);
    if (found == nullptr) found = find(kernels, Variant::softmax, role, width, tiles);
  }
  return found != nullptr ? found : find(kernels, Variant::general, role, width, tiles);
}

// Puts the parts of long lists together.
void merge(const Launch& launch, const Call& call, const Schedule::Items& items, const MmaKernel& kernel) {
  const bool by_columns = kernel.role == Role::column;
  const int width = kernel.width;
  const PartialShape shape{kBlockRows * kernel.tiles, width, by_columns ? width : 0};
  const dim3 grid(static_cast<unsigned>(items.merge_count),
                  static_cast<unsigned>(by_columns ? call.kv_heads : call.heads),
                  static_cast<unsigned>(shape.own / kMergedRows));
  merge_kernel<<<grid, 256, 0, launch.stream>>>(call, items.merges, shape, kernel.role);
  check_cuda(cudaGetLastError(), "tiled attention");
}

// Of every item and head, whether the portable kernels are to do it again.
DeviceScratch flags_of(const Launch& launch, const Schedule::Items& items, std::int64_t heads) {
  return {launch, static_cast<std::size_t>(items.part_count * heads) * sizeof(std::uint32_t)};
}

void run(const Launch& launch, Call call, const Schedule& schedule, const MmaKernel& kernel) {
  const bool by_columns = kernel.role == Role::column;
  const Schedule::Items& items = (by_columns ? schedule.by_columns : schedule.by_rows)[kernel.tiles - 1];
  if (items.count == 0) return;
  const std::int64_t heads = by_columns ? call.kv_heads : call.heads;
  const bool may_hide = schedule.has_parts || call.bias.data != nullptr;
  const DeviceScratch flags = flags_of(launch, items, may_hide ? heads : 0);
  const PartialShape shape{kBlockRows * kernel.tiles, kernel.width, by_columns ? kernel.width : 0};
  const DeviceScratch partial(launch, static_cast<std::size_t>(shape.offset(items.slots, heads, 0)) * sizeof(float));
  call.items = items.parts;
  call.flags = static_cast<std::uint32_t*>(flags.data());
  call.partial = static_cast<float*>(partial.data());
  kernel.run(launch, call, dim3(static_cast<unsigned>(items.part_count), static_cast<unsigned>(heads)));
  if (items.merge_count > 0) merge(launch, call, items, kernel);
  const Family family = has_statistic(call.weight) ? Family::shares : Family::points;
  if (may_hide) simt_kernels(family, false).run(launch, call, schedule, kernel.role, kernel.tiles);
}

// Items of rows and of columns are the same here, and so are their flags.
void run_diagonal(const Launch& launch, Call call, const Schedule& schedule, const MmaKernel& kernel) {
  const Schedule::Items& items = schedule.by_rows[0];
  if (items.count == 0) return;
  const DeviceScratch flags = flags_of(launch, items, schedule.has_parts ? call.heads : 0);
  call.items = items.parts;
  call.flags = static_cast<std::uint32_t*>(flags.data());
  kernel.run(launch, call, dim3(static_cast<unsigned>(items.part_count), static_cast<unsigned>(call.heads)));
  if (!schedule.has_parts) return;
  for (const Role role : {Role::row, Role::column})
    simt_kernels(Family::shares, false).run(launch, call, schedule, role, 1);
}

}  // namespace

bool reads_statistics(const Call& call, const Schedule& schedule) {
  return has_statistic(call.weight) && (schedule.has_parts || choose_diagonal(call, schedule) == nullptr);
}

bool mma_forward(const Launch& launch, const Call& call, const Schedule& schedule) {
  const MmaKernel* kernel = choose(call, schedule, Role::forward);
  const bool is_wide = call.output_type != call.dtype;
  if (kernel == nullptr || !is_aligned(call.q) || !is_aligned(call.k) || !is_aligned(call.v) ||
      !is_aligned(call.out, call.output_type) || !is_aligned(call.out_rest) ||
      (is_wide && call.out_rest.data != nullptr))  // which is nothing; the portable kernels say so
    return false;
  run(launch, call, schedule, *kernel);
  return true;
}

bool mma_takes_backward(const Call& call, const Schedule& schedule) {
  return takes_backward(call) &&
         (choose_diagonal(call, schedule) != nullptr ||
          (choose(call, schedule, Role::row) != nullptr && choose(call, schedule, Role::column) != nullptr));
}

bool mma_add_bias(const Launch& launch, const Call& call, const Schedule& schedule) {
  if (owner_of(call.d_bias) != BiasOwner::tile || !takes(call, schedule) || !takes_backward(call)) return false;
  const MmaKernel* kernel = find(call.dtype == DType::bf16 ? mma_bias_bf16 : mma_bias_f16, Variant::general, Role::row,
                                 std::max(call.d_k, call.d_v), 1);
  if (kernel == nullptr) return false;
  const auto pieces = std::ssize(schedule.host_pieces);
  const auto heads = static_cast<unsigned>(call.d_bias.head == 0 ? 1 : call.heads);
  const bool adds = !pieces_are_apart(call.d_bias, schedule);  // one after the other then
  if (adds)
    each_slab(pieces, [&](std::int64_t first, unsigned count) {
      clear_bias_kernel<float><<<dim3(256, heads, count), 256, 0, launch.stream>>>(from_piece(call, first));
    });
  const auto add = [&](std::int64_t first, unsigned count) {
    std::int64_t tiles = 0;
    for (std::int64_t i = first; i < first + count; ++i) {
      const PieceView& piece = schedule.host_pieces[static_cast<std::size_t>(i)];
      tiles = std::max(tiles, (piece.nq + kBlockRows - 1) / kBlockRows * ((piece.nk + kBlockRows - 1) / kBlockRows));
    }
    Call part = from_piece(call, first);
    part.adds_bias = adds;
    if (tiles > 0) kernel->run(launch, part, dim3(static_cast<unsigned>(tiles), heads, count));
  };
  if (adds)
    for (std::int64_t p = 0; p < pieces; ++p) add(p, 1);
  else
    each_slab(pieces, add);
  check_cuda(cudaGetLastError(), "the gradient of a bias");
  return true;
}

bool mma_backward(const Launch& launch, const Call& call, const Schedule& schedule) {
  if (!mma_takes_backward(call, schedule)) return false;
  if (const MmaKernel* both = choose_diagonal(call, schedule)) {
    run_diagonal(launch, call, schedule, *both);
    return true;
  }
  run(launch, call, schedule, *choose(call, schedule, Role::row));
  run(launch, call, schedule, *choose(call, schedule, Role::column));
  return true;
}

}  // namespace fovea::tile::cuda
