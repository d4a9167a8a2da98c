#include "core/wide.h"
#include "ops/column_sum_kernels.h"
#include "tensor/cuda/held_rows.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Numbers of one type in rows that packs fit into.
template <class R, DType kType>
struct ColumnPacks {
  Elements<R> x, y;
  std::int64_t width;

  __device__ void operator()(std::int64_t r, std::int64_t c, R (&to)[kPack]) const {
    RawPack<kType> raw, other = {};
    raw.load(x, r * width + c);
    if (y.defined()) other.load(y, r * width + c);
    raw.get(to);
    if (!y.defined()) return;
    R by[kPack];
    other.get(by);
#pragma unroll
    for (int e = 0; e < kPack; ++e) to[e] *= by[e];
  }
};

template <class R, DType kType>
void run_packs(const Context& context, const kernels::ColumnSum& io, const Tensor& sums) {
  const std::int64_t width = io.x.dim(1);
  const Elements<R> to = elements<R>(sums);
  pack_sums<R>(context, {io.x.dim(0), width}, ColumnPacks<R, kType>{elements<R>(io.x), elements<R>(io.y), width},
               [=] __device__(std::int64_t c, R sum) { to.put(c, sum); });
}

bool has_packs(const kernels::ColumnSum& io) {
  return (!io.y.defined() || io.y.dtype() == io.x.dtype()) &&
         PackedRow<DType::f32>(io.x.dim(1), {&io.x, &io.y}).has_packs;
}

template <class R>
void run(const Context& context, const kernels::ColumnSum& io, const Tensor& sums) {
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y), to = elements<R>(sums);
  const std::int64_t width = io.x.dim(1);
  column_sums(
      context, {io.x.dim(0), width},
      [=] __device__(std::int64_t r, std::int64_t c) -> R {
        return y.defined() ? x[r * width + c] * y[r * width + c] : x[r * width + c];
      },
      [=] __device__(std::int64_t c, R sum) { to.put(c, sum); });
}

}  // namespace

template <>
Tensor kernels::column_sums<Device::cuda>(const Context& context, const ColumnSum& io) {
  const Tensor sums = Tensor::empty(context, {io.x.dim(1)}, wide_type(io.x.dtype()));
  if (has_packs(io))
    visit_stored(io.x.dtype(), [&]<class R, DType kType>() { run_packs<R, kType>(context, io, sums); });
  else
    visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io, sums); });
  return sums;
}

}  // namespace fovea
