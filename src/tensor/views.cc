#include "tensor/views.h"

namespace fovea {

Tensor host_tensor(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  const auto owner = std::make_shared<std::vector<double>>((bytes + sizeof(double) - 1) / sizeof(double));
  return Tensor::wrap(owner->data(), shape, dtype, owner);
}

Tensor first_head_repeated(const Tensor& x, std::int64_t heads) {
  const std::int64_t strides[] = {x.stride(0), x.stride(1), 0, x.stride(3)};
  return Tensor::wrap(x.raw(), x.shape().with(2, heads), strides, x.dtype(), std::make_shared<Tensor>(x))
      .in(x.memory());
}

Tensor on_host(const Tensor& x) {
  if (x.device() == Device::cpu && x.is_contiguous()) return x;
  const Tensor dense = host_tensor(x.shape(), x.dtype());
  dense.copy_from(x);
  return dense;
}

Tensor host_room(const Context& context, const Shape& shape, DType dtype) {
  return context.device() == Device::cpu ? Tensor::empty(context, shape, dtype) : host_tensor(shape, dtype);
}

bool same_place(const Tensor& a, const Tensor& b) { return a.raw() == b.raw(); }

}  // namespace fovea
