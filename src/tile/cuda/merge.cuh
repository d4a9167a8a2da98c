#pragma once

#include "core/cuda/storage.cuh"
#include "policy/softmax.h"
#include "tile/cuda/simt_launch.h"
#include "tile/cuda/weigh.cuh"

namespace fovea::tile::cuda {

// One row of a result, from the sums that the parts of its list left: in the order of the parts.
struct PartialRow {
  const float* first;
  std::int64_t next;  // from part to part
  std::int32_t parts;

  __device__ float at(std::int32_t part, std::int64_t column) const { return first[part * next + column]; }
};

inline constexpr int kMergedRows = 8;  // of a block: one tile's rows in one block took 100 us

// Grid: (merges, heads or kv heads, own rows / kMergedRows).
__global__ void merge_kernel(const __grid_constant__ Call call, const Merge* merges, PartialShape shape, Role role) {
  const Merge merge = merges[blockIdx.x];
  const PieceView& piece = call.pieces[merge.piece];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const bool by_columns = role == Role::column, has_top = role == Role::forward && has_statistic(call.weight);
  if (piece.kv_head >= 0 && piece.kv_head != (by_columns ? head : call.kv_head_of(head))) return;
  const std::int64_t first = std::int64_t{merge.tile} * shape.own;
  const std::int64_t count = min((by_columns ? piece.nk : piece.nq) - first, std::int64_t{shape.own});
  const Out& out1 = by_columns ? call.dk : (role == Role::row ? call.dq : call.out);
  const std::int32_t d1 = role == Role::forward ? call.d_v : call.d_k, d2 = by_columns ? call.d_v : 0;
  const float scale = role == Role::forward ? 1.0f : static_cast<float>(call.scale);
  const std::int64_t row0 = blockIdx.z * kMergedRows, rows = min(count - row0, std::int64_t{kMergedRows});
  for (std::int64_t e = threadIdx.x; e < rows * (d1 + d2); e += blockDim.x) {
    const std::int64_t i = row0 + e / (d1 + d2), c = e % (d1 + d2);
    const PartialRow row{call.partial + shape.offset(merge.slot, gridDim.y, head) + i * shape.columns(),
                         shape.offset(1, gridDim.y, 0), merge.parts};
    const std::int64_t column = c < d1 ? c : shape.width1 + c - d1, terms = shape.width1 + shape.width2;
    float top = Softmax::kFloor<float>, sum = 0, value = 0;
    for (std::int32_t p = 0; has_top && p < row.parts; ++p) top = math::larger(row.at(p, terms), top);
    for (std::int32_t p = 0; p < row.parts; ++p) {
      const float factor = has_top ? Softmax::fold(row.at(p, terms), top) : 1.0f;
      value = fmaf(factor, row.at(p, column), value);
      if (has_top) sum = fmaf(factor, row.at(p, terms + 1), sum);
    }
    const std::int64_t at = by_columns ? piece.key_row(first + i) : piece.query_row(first + i);
    value *= has_top ? Softmax::close(sum) : (c < d1 ? scale : 1.0f);
    const Out& out = c < d1 ? out1 : call.dv;
    const std::int64_t to = offset_of(out, piece.batch, at, head) + (c < d1 ? c : c - d1);
    if (role == Role::forward)
      store_output_as<float>(call, to, offset_of(call.out_rest, piece.batch, at, head) + c, value);
    else
      store_as<float>(out.data, call.dtype, to, value);
    if (has_top && c == 0 && call.out_lse.data != nullptr)
      static_cast<float*>(call.out_lse.data)[offset_of(call.out_lse, piece.batch, at, head)] =
          Softmax::statistic(top, sum);
  }
}

}  // namespace fovea::tile::cuda
