#include "autograd/add_kernels.h"

#include "tensor/cpu/walk.h"

namespace fovea {
namespace {

template <class To, class From>
void add_patch(void* to_begin, const void* from_begin, const Patch& patch) {
  using R = Wide<To>;
  const auto sum = [](To a, From b) { return static_cast<To>(static_cast<R>(a) + static_cast<R>(b)); };
  const Patch p = patch;  // a copy: no store below can change it
  for (std::int64_t line = 0; line < p.lines; ++line) {
    To* to = static_cast<To*>(to_begin) + p.to + line * p.to_line;
    const From* from = static_cast<const From*>(from_begin) + p.from + line * p.from_line;
    if (p.dense())
      for (std::int64_t i = 0; i < p.count; ++i) to[i] = sum(to[i], from[i]);
    else
      for (std::int64_t i = 0; i < p.count; ++i) to[i * p.to_step] = sum(to[i * p.to_step], from[i * p.from_step]);
  }
}

}  // namespace

template <>
void kernels::add_into<Device::cpu>(const Context& context, const AddTensors& io) {
  const PatchBody body = visit_float(io.to.dtype(), [&]<class To>() {
    return visit_float(io.from.dtype(), [&]<class From>() -> PatchBody { return add_patch<To, From>; });
  });
  Walk(io.to, io.from).run(context.threads(), body, io.to.raw(), io.from.raw());
}

}  // namespace fovea
