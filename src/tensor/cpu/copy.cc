#include "tensor/copy_kernels.h"

#include <algorithm>
#include <cstring>

#include "tensor/cpu/walk.h"

namespace fovea {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<To, bf16> || std::is_same_v<To, f16>)
    return To(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class To, class From>
void copy_patch(void* to_begin, const void* from_begin, const Patch& patch) {
  const Patch p = patch;  // a copy: no store below can change it
  for (std::int64_t line = 0; line < p.lines; ++line) {
    To* to = static_cast<To*>(to_begin) + p.to + line * p.to_line;
    const From* from = static_cast<const From*>(from_begin) + p.from + line * p.from_line;
    if (!p.dense())
      for (std::int64_t i = 0; i < p.count; ++i) to[i * p.to_step] = convert<To>(from[i * p.from_step]);
    else if constexpr (std::is_same_v<To, From>)
      std::memcpy(to, from, static_cast<std::size_t>(p.count) * sizeof(To));
    else
      for (std::int64_t i = 0; i < p.count; ++i) to[i] = convert<To>(from[i]);
  }
}

template <class T>
void fill_patch(void* begin, const void* filling, const Patch& patch) {
  const Patch p = patch;
  const T value = convert<T>(*static_cast<const double*>(filling));
  for (std::int64_t line = 0; line < p.lines; ++line) {
    T* to = static_cast<T*>(begin) + p.to + line * p.to_line;
    if (p.dense())
      std::fill_n(to, p.count, value);
    else
      for (std::int64_t i = 0; i < p.count; ++i) to[i * p.to_step] = value;
  }
}

}  // namespace

template <>
void kernels::copy<Device::cpu>(const CopyTensors& io) {
  const PatchBody body = visit(io.to.dtype(), [&]<class To>() {
    return visit(io.from.dtype(), [&]<class From>() -> PatchBody { return copy_patch<To, From>; });
  });
  Walk(io.to, io.from).run(io.threads, body, io.to.raw(), io.from.raw());
}

template <>
void kernels::fill<Device::cpu>(const FillTensor& io) {
  const PatchBody body = visit(io.to.dtype(), [&]<class T>() -> PatchBody { return fill_patch<T>; });
  Walk(io.to, io.to).run(io.threads, body, io.to.raw(), &io.value);
}

}  // namespace fovea
