#pragma once

#include "tensor/cuda/elements.cuh"

namespace fovea::device {

// place, an i64 scalar: the first i < count for which f(i); -1: none. As a number without sign -1 is the largest, so
// that the smallest place wins whatever the order.
template <class F>
void find_first(const Context& context, std::int64_t count, const Tensor& place, const F& f) {
  place.fill(-1.0);
  auto* const to = reinterpret_cast<unsigned long long*>(pointer<std::int64_t>(place));
  each(context, count, [=] __device__(std::int64_t i) {
    if (f(i)) atomicMin(to, static_cast<unsigned long long>(i));
  });
}

}  // namespace fovea::device
