#include "core/visit_device.h"
#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/gradients.h"
#include "optim/update_kernels.h"

namespace fovea {

Tensor clip_norm(Context& context, std::span<const Parameter> parameters, double limit) {
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const kernels::GradientNorm measured{gradients_of(parameters), Tensor::empty(context, {}, DType::f64)};
  visit_device(context, measured, [&]<Device D>() { kernels::gradient_norm<D>(context, measured); });
  if (limit <= 0.0) return measured.norm;
  const kernels::NormClip io{measured.grads, measured.norm, limit};
  visit_device(context, io, [&]<Device D>() { kernels::clip_norm<D>(context, io); });
  return measured.norm;
}

void clip_value(Context& context, std::span<const Parameter> parameters, double limit, const Tensor& go) {
  if (limit <= 0.0) return;
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const kernels::ValueClip io{gradients_of(parameters), limit, go};
  visit_device(context, io, [&]<Device D>() { kernels::clip_value<D>(context, io); });
}

}  // namespace fovea
