#include "autograd/add_into.h"

#include "autograd/add_kernels.h"
#include "core/visit_device.h"

namespace fovea {

void add_into(const Context& context, const Tensor& to, const Tensor& from) {
  if (to.shape() != from.shape())
    fail(ErrorCode::internal, "adding shape " + from.shape().text() + " into " + to.shape().text());
  const kernels::AddTensors io{to, from};
  visit_device(context, io, [&]<Device D>() { kernels::add_into<D>(context, io); });
}

}  // namespace fovea
