#include "gemm/packed.h"

#include "core/visit_device.h"
#include "fovea/zones.h"
#include "gemm/packed_kernels.h"

namespace fovea::gemm {

PackedWeight::PackedWeight(const Context& context, const Tensor& weight, Form form)
    : panels_{form, weight.dim(0), weight.dim(1), {}, {}} {
  const std::int64_t panels = panels_.panels();
  panels_.data = Tensor::empty(context, {panels * panels_.panel_bytes()}, DType::u8, Lifetime::persistent);
  if (form == Form::i8) panels_.scales = Tensor::empty(context, {panels * kPanel}, DType::f32, Lifetime::persistent);
  const kernels::PackTensors io{panels_, weight};
  visit_device(context, io, [&]<Device D>() { kernels::pack<D>(context, io); });
}

void PackedWeight::multiply(const Context& context, const Tensor& x, const Tensor& bias, const Tensor& y) const {
  const ZoneTimer timer(context.zones(), Zone::gemm);
  const kernels::PackedProduct io{panels_, x, bias, y};
  visit_device(context, io, [&]<Device D>() { kernels::multiply_packed<D>(context, io); });
}

PackedWeights::PackedWeights(Form form, const std::vector<Tensor>& parameters) : form_(form) {
  for (const Tensor& p : parameters)
    if (p.rank() == 2 && p.dtype() == DType::f32 && p.numel() > 0) entries_[p.raw()].parameter = p;
}

const PackedWeight* PackedWeights::find(const Context& context, const Tensor& weight) const {
  const auto at = entries_.find(weight.raw());
  if (at == entries_.end() || weight.rank() != 2) return nullptr;
  Entry& entry = at->second;
  const auto same = [&](const Tensor& t) {
    return t.shape() == weight.shape() && t.stride(0) == weight.stride(0) && t.stride(1) == weight.stride(1);
  };
  const bool plain = same(entry.parameter);
  if (!plain && !same(entry.parameter.transpose(0, 1))) return nullptr;
  std::unique_ptr<PackedWeight>& packed = plain ? entry.plain : entry.transposed;
  if (packed == nullptr) packed = std::make_unique<PackedWeight>(context, weight, form_);
  return packed.get();
}

std::size_t PackedWeights::bytes() const {
  std::size_t sum = 0;
  for (const auto& [data, entry] : entries_)
    for (const auto* packed : {entry.plain.get(), entry.transposed.get()})
      if (packed != nullptr) sum += packed->bytes();
  return sum;
}

}  // namespace fovea::gemm
