#include "mechanisms/score_kernels.h"

#include "core/wide.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

struct Warm {
  double most;
  __device__ double operator()(double log) const { return exp(fmin(log, most)); }
};

template <class R>
void vjp(const Context& context, const kernels::TemperatureVjp& io) {
  const Elements<R> log = elements<R>(io.log), out = elements<R>(io.out), given = elements<R>(io.g),
                    d_log = elements<R>(io.d_log);
  const std::int64_t width = io.out.dim(1);
  const double most = io.most;
  rows(context, io.log.numel(), width, [=] __device__(const auto& g) {
    R sum = 0;
    for (std::int64_t i = g.row * width + g.lane; i < (g.row + 1) * width; i += g.lanes) sum += out[i] * given[i];
    sum = g.sum(sum);
    if (g.lane == 0) d_log.put(g.row, static_cast<double>(log[g.row]) >= most ? R(0) : sum);
  });
}

}  // namespace

template <>
void kernels::temperature<Device::cuda>(const Context& context, const Temperature& io) {
  map<double>(context, Warm{io.most}, io.out, io.log.reshape({io.log.numel(), 1}));
}

template <>
void kernels::temperature_backward<Device::cuda>(const Context& context, const TemperatureVjp& io) {
  visit_wide(io.log.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea
