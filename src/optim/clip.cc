#include "core/visit_device.h"
#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/gradients.h"
#include "optim/update_kernels.h"

namespace fovea {

Tensor gradient_norm(Context& context, std::span<const Parameter> parameters) {
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const kernels::GradientNorm io{gradients_of(parameters), Tensor::empty(context, {}, DType::f64)};
  visit_device(context, io, [&]<Device D>() { kernels::gradient_norm<D>(context, io); });
  return io.norm;
}

void clip_to(Context& context, std::span<const Parameter> parameters, const Tensor& norm, double limit) {
  if (limit <= 0.0) return;
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const kernels::NormClip io{gradients_of(parameters), norm, limit};
  visit_device(context, io, [&]<Device D>() { kernels::clip_norm<D>(context, io); });
}

Tensor clip_norm(Context& context, std::span<const Parameter> parameters, double limit) {
  const Tensor norm = gradient_norm(context, parameters);
  clip_to(context, parameters, norm, limit);
  return norm;
}

void clip_value(Context& context, std::span<const Parameter> parameters, double limit, const Tensor& go) {
  if (limit <= 0.0) return;
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const kernels::ValueClip io{gradients_of(parameters), limit, go};
  visit_device(context, io, [&]<Device D>() { kernels::clip_value<D>(context, io); });
}

}  // namespace fovea
