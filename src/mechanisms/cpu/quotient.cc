#include "mechanisms/quotient_kernels.h"

#include "ops/work.h"

namespace fovea {

template <>
void kernels::divide_by_last<Device::cpu>(const Context& context, const DivideByLast& io) {
  const std::int64_t d = io.y.dim(-1);
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for_rows(context, io.x.numel() / (d + 1), d, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* from = io.x.data<T>() + r * (d + 1);
        T* to = io.y.data<T>() + r * d;
        const R sum = static_cast<R>(from[d]) + static_cast<R>(io.add);
        for (std::int64_t c = 0; c < d; ++c) to[c] = static_cast<T>(sum == 0 ? R(0) : static_cast<R>(from[c]) / sum);
      }
    });
  });
}

template <>
void kernels::divide_by_last_backward<Device::cpu>(const Context& context, const DivideByLastVjp& io) {
  const std::int64_t d = io.g.dim(-1);
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for_rows(context, io.x.numel() / (d + 1), d, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T *in = io.x.data<T>() + r * (d + 1), *upstream = io.g.data<T>() + r * d;
        T* out = io.dx.data<T>() + r * (d + 1);
        const R sum = static_cast<R>(in[d]) + static_cast<R>(io.add), inverse = sum == 0 ? R(0) : 1 / sum;
        R dot = 0;
        for (std::int64_t c = 0; c < d; ++c) {
          dot += static_cast<R>(upstream[c]) * static_cast<R>(in[c]);
          out[c] = static_cast<T>(static_cast<R>(upstream[c]) * inverse);
        }
        out[d] = static_cast<T>(-dot * inverse * inverse);
      }
    });
  });
}

}  // namespace fovea
