#include "ops/pool_kernels.h"

#include "core/wide.h"
#include "ops/cuda/sequences.cuh"
#include "ops/cuda/split.cuh"
#include "tensor/cuda/held_rows.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void mean(const Context& context, const kernels::MeanRows& io) {
  std::vector<RowPieces::Rows> ranges;
  for (const auto& [batch, begin, count] : *io.ranges)
    ranges.push_back({batch * io.n + begin, batch * io.n + begin + count});
  const RowPieces pieces(context, ranges);
  const Tensor partial = pieces.sums<R>(context, io.x);
  const auto view = pieces.view();
  const auto list = upload(context, *io.ranges);
  const Sequences::Rows* const rows = list.data();
  const R* const sums = pointer<R>(partial);
  const Elements<R> out = elements<R>(io.out);
  const std::int64_t width = io.x.dim(1);
  each(context, view.ranges * width, [=] __device__(std::int64_t i) {
    const Split at = split(i, width);
    R sum(0);
    for (std::int64_t p = view.first[at.whole]; p < view.first[at.whole + 1]; ++p) sum += sums[p * width + at.rest];
    const std::int64_t count = rows[at.whole].count;
    out.put(i, count == 0 ? R(0) : sum * static_cast<R>(1.0 / static_cast<double>(count)));
  });
}

template <class R>
void spread(const Context& context, const kernels::MeanRowsVjp& io) {
  const RowOwners owners(context, *io.ranges, io.n);
  const auto owner = owners.view();
  const Elements<R> g = elements<R>(io.g), dx = elements<R>(io.dx);
  const std::int64_t width = io.dx.dim(1);
  const bool add = io.add;
  rows(context, io.dx.dim(0), width, [=] __device__(const auto& group) {
    const std::int64_t range = owner(group.row);
    if (range < 0 && add) return;
    const R factor = range < 0 ? R(0) : static_cast<R>(1.0 / static_cast<double>(owner.list[range].count));
    for (std::int64_t c = group.lane; c < width; c += group.lanes) {
      const std::int64_t at = group.row * width + c;
      const R share = range < 0 ? R(0) : as_stored(dx.dtype, g[range * width + c] * factor);
      dx.put(at, add ? dx[at] + share : share);
    }
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
