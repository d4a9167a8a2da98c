#include "ops/reciprocal_kernels.h"

#include "ops/work.h"

namespace fovea {

template <>
void kernels::reciprocal<Device::cpu>(const Context& context, const Reciprocal& io) {
  visit_float(io.x.dtype(), [&]<class T>() {
    const T* x = io.x.data<T>();
    T* y = io.y.data<T>();
    for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = T(Wide<T>(1) / static_cast<Wide<T>>(x[i]));
    });
  });
}

template <>
void kernels::reciprocal_backward<Device::cpu>(const Context& context, const ReciprocalVjp& io) {
  visit_float(io.y.dtype(), [&]<class T>() {
    using R = Wide<T>;
    const T *g = io.g.data<T>(), *y = io.y.data<T>();
    T* dx = io.dx.data<T>();
    for_elements(context, io.y.numel(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        dx[i] = T(-static_cast<R>(g[i]) * static_cast<R>(y[i]) * static_cast<R>(y[i]));
    });
  });
}

}  // namespace fovea
