#include "ops/pool_kernels.h"

#include "core/wide.h"
#include "ops/cuda/packs.cuh"
#include "ops/cuda/sequences.cuh"
#include "ops/cuda/split.cuh"
#include "tensor/cuda/held_rows.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr std::int64_t kByWarps = 1;

template <class R>
void mean(const Context& context, const kernels::MeanRows& io) {
  std::vector<RowPieces::Rows> ranges;
  for (const auto& [batch, begin, count] : *io.ranges)
    ranges.push_back({batch * io.n + begin, batch * io.n + begin + count});
  const RowPieces pieces(context, ranges);
  const Tensor partial = pieces.sums<R>(context, io.x);
  const auto view = pieces.view();
  const auto list = upload(context, *io.ranges);
  const Sequences::Rows* const range = list.data();
  const R* const sums = pointer<R>(partial);
  const Elements<R> out = elements<R>(io.out);
  const std::int64_t width = io.x.dim(1);
  rows(context, view.ranges * width, kByWarps, [=] __device__(const auto& group) {
    const Split at = split(group.row, width);
    R sum(0);
    for (std::int64_t p = view.first[at.whole] + group.lane; p < view.first[at.whole + 1]; p += group.lanes)
      sum += sums[p * width + at.rest];
    sum = group.sum(sum);
    const std::int64_t count = range[at.whole].count;
    if (group.lane == 0) out.put(group.row, count == 0 ? R(0) : sum * static_cast<R>(1.0 / static_cast<double>(count)));
  });
}

template <class R>
void spread(const Context& context, const kernels::MeanRowsVjp& io) {
  const RowOwners owners(context, *io.ranges, io.n);
  const auto owner = owners.view();
  const Elements<R> g = elements<R>(io.g), dx = elements<R>(io.dx);
  const std::int64_t width = io.dx.dim(1);
  const bool add = io.add;
  each_pack(context, {io.dx.dim(0), width}, has_packs(io.g, 1) && has_packs(io.dx, 1),
            [=] __device__(auto neighbours, std::int64_t row, std::int64_t column) {
              constexpr int kCount = decltype(neighbours)::count;
              const std::int64_t range = owner(row);
              if (range < 0 && add) return;
              R share[kCount] = {}, there[kCount] = {};
              if (range >= 0) load(g, range * width + column, share);
              if (add) load(dx, row * width + column, there);
              const R factor = range < 0 ? R(0) : static_cast<R>(1.0 / static_cast<double>(owner.list[range].count));
              for (int k = 0; k < kCount; ++k) share[k] = there[k] + as_stored(dx.dtype, share[k] * factor);
              store(dx, row * width + column, share);
            });
}

}  // namespace

template <>
void kernels::mean_rows<Device::cuda>(const Context& context, const MeanRows& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { mean<R>(context, io); });
}

template <>
void kernels::mean_rows_backward<Device::cuda>(const Context& context, const MeanRowsVjp& io) {
  visit_wide(io.dx.dtype(), [&]<class R>() { spread<R>(context, io); });
}

}  // namespace fovea
