#include <cmath>

#include "fovea/dtype.h"
#include "mechanisms/score_kernels.h"

namespace fovea {

template <>
void kernels::temperature<Device::cpu>(const Context&, const Temperature& io) {
  visit_float(io.log.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < io.out.numel(); ++i)
      io.out.data<T>()[i] =
          static_cast<T>(std::exp(std::fmin(static_cast<double>(io.log.data<T>()[i / io.out.dim(1)]), io.most)));
  });
}

template <>
void kernels::temperature_backward<Device::cpu>(const Context&, const TemperatureVjp& io) {
  const std::int64_t width = io.out.dim(1);
  visit_float(io.log.dtype(), [&]<class T>() {
    for (std::int64_t head = 0; head < io.log.numel(); ++head) {
      T& sum = io.d_log.data<T>()[head] = T(0.0f);
      if (static_cast<double>(io.log.data<T>()[head]) >= io.most) continue;
      for (std::int64_t i = head * width; i < (head + 1) * width; ++i)
        sum = static_cast<T>(sum + io.out.data<T>()[i] * io.g.data<T>()[i]);
    }
  });
}

}  // namespace fovea
