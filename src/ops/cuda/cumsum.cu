#include "ops/cumsum_kernels.h"

#include "core/wide.h"
#include "ops/cuda/sequences.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

std::vector<RowPieces::Rows> sequences_of(const Stretches& stretches) {
  std::vector<RowPieces::Rows> rows;
  for (std::size_t s = 0; s + 1 < stretches.first.size(); ++s) {
    const std::int64_t begin = stretches.first[s], end = stretches.first[s + 1];
    if (begin < end)
      rows.push_back({stretches.list[static_cast<std::size_t>(begin)].begin,
                      stretches.list[static_cast<std::size_t>(end - 1)].end});
  }
  return rows;
}

// The sums of pieces become what comes before each of them in its sequence (after it, for `back`).
template <class R>
void sums_before(const Context& context, const Tensor& partial, const RowPieces::View& pieces, bool back) {
  const std::int64_t width = partial.dim(1);
  R* const sums = pointer<R>(partial);
  each(context, pieces.ranges * width, [=] __device__(std::int64_t i) {
    const std::int64_t range = i / width, c = i % width, begin = pieces.first[range], end = pieces.first[range + 1];
    R running(0);
    for (std::int64_t p = begin; p < end; ++p) {
      R& here = sums[(back ? begin + end - 1 - p : p) * width + c];
      const R sum = here;
      here = running;
      running += sum;
    }
  });
}

template <class R>
void run(const Context& context, const kernels::RunningSum& io) {
  const RowPieces cut(context, sequences_of(*io.stretches));
  const RowPieces::View pieces = cut.view();
  const Tensor partial = cut.sums<R>(context, io.x);
  sums_before<R>(context, partial, pieces, io.back);
  const R* const before = pointer<R>(partial);
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y);
  const std::int64_t width = io.x.dim(1);
  const bool back = io.back;
  each(context, pieces.pieces * width, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width;
    const RowPieces::Rows rows = pieces.list[i / width];
    R running = before[i];
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t at = (back ? rows.begin + rows.end - 1 - row : row) * width + c;
      running += x[at];
      y.put(at, running);
    }
  });
}

}  // namespace

template <>
void kernels::running_sums<Device::cuda>(const Context& context, const RunningSum& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

}  // namespace fovea
