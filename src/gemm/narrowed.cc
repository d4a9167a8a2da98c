#include "gemm/narrowed.h"

#include "core/visit_device.h"
#include "tensor/convert_kernels.h"

namespace fovea::gemm {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 24;  // numbers in all: a large model's are not kept twice
constexpr std::int64_t kApart = 128;                   // each begins where a product likes it: at 256 bytes

thread_local NarrowedWeights* current = nullptr;

std::int64_t room_of(const Tensor& t) { return (t.numel() + kApart - 1) / kApart * kApart; }

}  // namespace

NarrowedWeights::NarrowedWeights(std::vector<Tensor> parameters)
    : parameters_(std::move(parameters)), before_(std::exchange(current, this)) {}
NarrowedWeights::~NarrowedWeights() { current = before_; }

Tensor NarrowedWeights::find(const Context& context, const Tensor& parameter, DType dtype) {
  if (current == nullptr || kernels_of(context.device()) == Device::cpu || size_of(dtype) >= size_of(parameter.dtype()))
    return {};
  if (!current->converted_) current->convert(context, dtype);
  const auto found = current->narrow_.find(parameter.raw());
  if (found == current->narrow_.end() || !parameter.is_contiguous() || found->second.shape() != parameter.shape() ||
      found->second.dtype() != dtype)
    return {};
  return found->second;
}

void NarrowedWeights::convert(const Context& context, DType dtype) {
  converted_ = true;
  kernels::ConvertTensors io;
  std::int64_t all = 0;
  for (const Tensor& t : parameters_)
    if (t.numel() > 0 && t.is_contiguous() && size_of(dtype) < size_of(t.dtype())) {
      io.from.push_back(t);
      all += room_of(t);
    }
  if (all == 0 || all > kMost) return;
  const Tensor room = Tensor::empty(context, {all}, dtype);
  std::int64_t at = 0;
  for (const Tensor& t : io.from) {
    io.to.push_back(room.slice(0, at, at + t.numel()).reshape(t.shape()));
    narrow_[t.raw()] = io.to.back();
    at += room_of(t);
  }
  visit_device(context, io, [&]<Device D>() { kernels::convert<D>(context, io); });
}

}  // namespace fovea::gemm
