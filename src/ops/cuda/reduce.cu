#include "core/wide.h"
#include "ops/reduce_kernels.h"
#include "tensor/cuda/held_rows.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
struct PutScaled {
  Elements<R> y;
  double factor;
  __device__ void operator()(R sum) const { y.put(0, static_cast<R>(static_cast<double>(sum) * factor)); }
};

template <class R>
void run(const Context& context, const kernels::Total& io) {
  const Elements<R> x = elements<R>(io.x);
  total(
      context, io.x.numel(), [=] __device__(std::int64_t i) -> R { return x[i]; },
      PutScaled<R>{elements<R>(io.y), io.factor});
}

// Item i: the sum of eight neighbours.
template <class R, DType kType>
void run_packs(const Context& context, const kernels::Total& io) {
  const Elements<R> x = elements<R>(io.x);
  total(
      context, io.x.numel() / kPack,
      [=] __device__(std::int64_t i) -> R {
        RawPack<kType> raw;
        raw.load(x, i * kPack);
        R of[kPack];
        raw.get(of);
        return ((of[0] + of[1]) + (of[2] + of[3])) + ((of[4] + of[5]) + (of[6] + of[7]));
      },
      PutScaled<R>{elements<R>(io.y), io.factor});
}

template <class R>
struct Repeat {
  double factor;
  __device__ R operator()(R g) const { return static_cast<R>(static_cast<double>(g) * factor); }
};

}  // namespace

template <>
void kernels::total<Device::cuda>(const Context& context, const Total& io) {
  if (PackedRow<DType::f32>(io.x.numel(), {&io.x}).has_packs)
    visit_stored(io.x.dtype(), [&]<class R, DType kType>() { run_packs<R, kType>(context, io); });
  else
    visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
void kernels::total_backward<Device::cuda>(const Context& context, const TotalVjp& io) {
  visit_wide(io.dx.dtype(), [&]<class R>() { map<R>(context, Repeat<R>{io.factor}, io.dx, io.g); });
}

}  // namespace fovea
