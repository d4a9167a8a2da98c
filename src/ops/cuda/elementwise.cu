#include "core/wide.h"
#include "ops/cuda/dropout.cuh"
#include "ops/elementwise_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <kernels::Binary kOp>
struct BinaryOf {
  template <class R>
  __device__ R operator()(R a, R b) const {
    if constexpr (kOp == kernels::Binary::add) return a + b;
    if constexpr (kOp == kernels::Binary::sub) return a - b;
    return a * b;
  }
};

template <class R>
void run(const Context& context, const kernels::BinaryTensors& io) {
  switch (io.op) {
    case kernels::Binary::add: return map<R>(context, BinaryOf<kernels::Binary::add>(), io.y, io.a, io.b);
    case kernels::Binary::sub: return map<R>(context, BinaryOf<kernels::Binary::sub>(), io.y, io.a, io.b);
    default: return map<R>(context, BinaryOf<kernels::Binary::mul>(), io.y, io.a, io.b);
  }
}

template <class R>
struct Times {
  double factor;
  bool by_number;
  __device__ R operator()(R x, double by) const { return x * static_cast<R>(by_number ? factor * by : factor); }
};

template <class R>
struct TimesExp {
  double most;
  __device__ R operator()(R x, R log) const { return x * static_cast<R>(fmin(exp(static_cast<double>(log)), most)); }
};

template <class R>
struct DropOut {
  DropoutFactors<R> factors;
  std::int64_t first;  // a multiple of 8
  __device__ Philox of_eight(std::int64_t i) const { return factors.of_eight(first + i); }
  __device__ R operator()(const Philox& words, int in_eight, R x) const { return x * factors.factor(words, in_eight); }
};

}  // namespace

template <>
void kernels::binary<Device::cuda>(const Context& context, const BinaryTensors& io) {
  visit_wide(io.a.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
void kernels::scale<Device::cuda>(const Context& context, const ScaleTensors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() {
    map<R>(context, Times<R>{io.factor, io.by.defined()}, io.y, io.x, io.by);
  });
}

template <>
void kernels::exp_scale<Device::cuda>(const Context& context, const ExpScale& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { map<R>(context, TimesExp<R>{io.most}, io.y, io.x, io.log); });
}

namespace {

template <class R>
struct ExpScaleSlope {
  double most;
  __device__ R operator()(R d_log, R log) const {
    const double free = exp(static_cast<double>(log));
    return free > most && d_log < 0 ? R(0) : d_log * static_cast<R>(fmin(free, most));
  }
};

}  // namespace

template <>
void kernels::exp_scale_backward<Device::cuda>(const Context& context, const ExpScaleVjp& io) {
  visit_wide(io.d_log.dtype(), [&]<class R>() {
    map<R>(context, ExpScaleSlope<R>{io.most}, io.d_log.reshape({1}), io.d_log.reshape({1}), io.log.reshape({1}));
  });
}

template <>
void kernels::dropout<Device::cuda>(const Context& context, const DropoutTensors& io) {
  if (io.columns > 0) fail(ErrorCode::unsupported, "dropout of some columns on a card");
  if (io.first % 8 != 0) fail(ErrorCode::unsupported, "dropout of a part that does not begin with a multiple of 8");
  visit_wide(io.x.dtype(), [&]<class R>() {
    map<R>(context, DropOut<R>{DropoutFactors<R>(io.keep), io.first}, io.y, io.x);
  });
}

}  // namespace fovea
