#include "core/wide.h"
#include "mechanisms/score_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void write(const Context& context, const kernels::Temperature& io) {
  const Elements<R> log = elements<R>(io.log), out = elements<R>(io.out);
  const std::int64_t width = io.out.dim(1);
  const double most = io.most;
  each(context, io.out.numel(), [=] __device__(std::int64_t i) {
    out.put(i, static_cast<R>(exp(fmin(static_cast<double>(log[i / width]), most))));
  });
}

template <class R>
void pull(const Context& context, const kernels::TemperaturePull& io) {
  const Elements<R> log = elements<R>(io.log), out = elements<R>(io.out), g = elements<R>(io.g),
                    d_log = elements<R>(io.d_log);
  const std::int64_t width = io.out.dim(1);
  const double most = io.most;
  rows(context, io.log.numel(), width, [=] __device__(const auto& group) {
    R sum(0);
    for (std::int64_t c = group.lane; c < width; c += group.lanes)
      sum += out[group.row * width + c] * g[group.row * width + c];
    sum = group.sum(sum);
    if (group.lane == 0) d_log.put(group.row, static_cast<double>(log[group.row]) >= most ? R(0) : sum);
  });
}

}  // namespace

template <>
void kernels::temperature<Device::cuda>(const Context& context, const Temperature& io) {
  visit_wide(io.log.dtype(), [&]<class R>() { write<R>(context, io); });
}

template <>
void kernels::temperature_backward<Device::cuda>(const Context& context, const TemperaturePull& io) {
  visit_wide(io.log.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea
