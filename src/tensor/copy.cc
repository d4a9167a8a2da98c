#include <omp.h>

#include "core/visit_device.h"
#include "tensor/copy_kernels.h"
#include "tensor/transient.h"

namespace fovea {
namespace {

// Copies have no context: they use the threads of the memory they write to, or read from where that is borrowed and has
// none of its own; and one inside a parallel region.
int copy_threads(const Tensor& to, const Tensor& from) {
  if (omp_in_parallel() != 0) return 1;
  return (to.memory() == borrowed_memory() ? from : to).memory()->threads();
}

void copy_within(const Tensor& to, const Tensor& from) {
  const kernels::CopyTensors io{to, from, copy_threads(to, from)};
  const OpenMemory source(*from.memory());
  visit_device(*to.memory(), [&]<Device D>() { kernels::copy<D>(io); });
}

bool is_plain(const Tensor& t, DType dtype) { return t.is_contiguous() && t.dtype() == dtype; }

// Between the host and a device, or two devices by way of the host. Bytes travel dense, in the dtype of the target.
void copy_across(const Tensor& to, const Tensor& from) {
  if (to.device() != Device::cpu && from.device() != Device::cpu) {
    const Tensor host = transient(borrowed_memory(), to.shape(), to.dtype());
    host.copy_from(from);
    return to.copy_from(host);
  }
  const Tensor sent = is_plain(from, to.dtype()) ? from : transient(from.memory(), to.shape(), to.dtype());
  if (sent.raw() != from.raw()) copy_within(sent, from);
  const Tensor landed = to.is_contiguous() ? to : transient(to.memory(), to.shape(), to.dtype());
  if (to.device() == Device::cpu)
    from.memory()->read(landed.raw(), sent.raw(), to.bytes());
  else
    to.memory()->write(landed.raw(), sent.raw(), to.bytes());
  if (landed.raw() != to.raw()) copy_within(to, landed);
}

}  // namespace

Tensor transient(const std::shared_ptr<Memory>& memory, const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  void* data = memory->map(bytes);
  if (data == nullptr) fail(ErrorCode::out_of_memory, "no room for a copy of shape " + shape.text());
  return Tensor::wrap(data, shape, dtype,
                      std::shared_ptr<void>(data, [memory, bytes](void* p) { memory->unmap(p, bytes); }))
      .in(memory);
}

void Tensor::copy_from(const Tensor& source) const {
  if (source.shape() != shape())
    fail(ErrorCode::shape, "copy of shape " + source.shape().text() + " into " + shape().text());
  if (numel() == 0) return;
  if (device() == source.device())
    copy_within(*this, source);
  else
    copy_across(*this, source);
}

void Tensor::fill(double value) const {
  const kernels::FillTensor io{*this, value, copy_threads(*this, *this)};
  visit_device(*memory(), [&]<Device D>() { kernels::fill<D>(io); });
}

Tensor Tensor::contiguous(const Context& context) const {
  check_device(context.device(), *this);
  return is_contiguous() ? *this : clone(context);
}

Tensor Tensor::clone(const Context& context, Lifetime lifetime) const {
  Tensor copy = empty(context, shape_, dtype_, lifetime);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to(const Context& context, DType dtype) const {
  check_device(context.device(), *this);
  if (dtype == dtype_) return *this;
  Tensor copy = empty(context, shape_, dtype);
  copy.copy_from(*this);
  return copy;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> values(static_cast<std::size_t>(numel()));
  if (!values.empty()) wrap(values.data(), shape_, dtype_of<T>).copy_from(*this);
  return values;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;

double Tensor::item() const {
  if (numel() != 1) fail(ErrorCode::shape, "item() of a tensor of shape " + shape_.text());
  return to_vector<double>().front();
}

}  // namespace fovea
