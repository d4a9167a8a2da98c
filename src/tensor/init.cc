#include "fovea/init.h"

#include <cmath>

#include "core/visit_device.h"
#include "tensor/init_kernels.h"

namespace fovea {
namespace {

// FNV-1a: the random stream of a weight comes from its name.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

Init Init::xavier(std::int64_t fan_in, std::int64_t fan_out) {
  return {Kind::uniform, std::sqrt(6.0 / static_cast<double>(fan_in + fan_out))};
}

Tensor make_weight(const Context& context, std::string_view name, const Shape& shape, DType dtype, const Init& init) {
  const Tensor value = Tensor::empty(context, shape, dtype, Lifetime::persistent);
  switch (init.kind) {
    case Init::Kind::zeros: value.fill(0.0); break;
    case Init::Kind::ones: value.fill(1.0); break;
    case Init::Kind::constant: value.fill(init.size); break;
    default:
      const kernels::DrawnWeights io{init, stream_of(name), value};
      visit_device(context, io, [&]<Device D>() { kernels::draw<D>(context, io); });
  }
  return value;
}

}  // namespace fovea
