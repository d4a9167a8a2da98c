#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/dtype.h"
#include "mechanisms/bias_kernels.h"

namespace fovea {

template <>
void kernels::are_numbers<Device::cpu>(const Context&, const AreNumbers& io) {
  *io.flag.data<std::uint8_t>() = visit_float(io.x.dtype(), [&]<class T>() -> std::uint8_t {
    using R = Wide<T>;
    const T *begin = io.x.data<T>(), *end = begin + io.x.numel();
    const auto passes = [&](T value) {
      const auto x = static_cast<R>(value);
      return io.or_minus_infinity ? x < std::numeric_limits<R>::infinity() : std::isfinite(x);
    };
    return std::all_of(begin, end, passes) ? 1 : 0;
  });
}

}  // namespace fovea
