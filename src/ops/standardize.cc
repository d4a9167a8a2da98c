#include "ops/standardize.h"

#include "core/visit_device.h"
#include "ops/standardize_kernels.h"

namespace fovea {

ChannelMoments channel_moments(const Context& context, const Tensor& values, double eps, DType dtype) {
  const Shape shape{values.dim(0), values.dim(2)};
  const kernels::MeasureSeries io{
      eps, values.contiguous(context), {Tensor::empty(context, shape, dtype), Tensor::empty(context, shape, dtype)}};
  visit_device(context, io, [&]<Device D>() { kernels::channel_moments<D>(context, io); });
  return io.moments;
}

Tensor standardized(const Context& context, const Tensor& values, const ChannelMoments& moments) {
  const kernels::Standardize io{values.contiguous(context), moments,
                                Tensor::empty(context, values.shape(), moments.mean.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::standardize<D>(context, io); });
  return io.y;
}

Tensor repeated_rows(const Context& context, const Tensor& x, std::int64_t n) {
  const kernels::RepeatRows io{x.contiguous(context), Tensor::empty(context, {x.dim(0), n, x.dim(1)}, x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::repeat_rows<D>(context, io); });
  return io.y;
}

}  // namespace fovea
