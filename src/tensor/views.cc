#include "tensor/views.h"

namespace fovea {

Tensor first_head_repeated(const Tensor& x, std::int64_t heads) {
  const std::int64_t strides[] = {x.stride(0), x.stride(1), 0, x.stride(3)};
  return Tensor::wrap(x.raw(), x.shape().with(2, heads), strides, x.dtype(), std::make_shared<Tensor>(x))
      .in(x.memory());
}

bool same_place(const Tensor& a, const Tensor& b) { return a.raw() == b.raw(); }

}  // namespace fovea
