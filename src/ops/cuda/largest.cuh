#pragma once

#include "policy/math.h"
#include "tensor/cuda/rows.cuh"

namespace fovea::device {

template <class R>
struct Largest {
  std::int64_t place;
  R value;
};

// The largest f(i) of i < count and the first that is it, for all lanes of a group; the place is 0 where it is NaN.
template <class R, class G, class F>
__device__ Largest<R> largest_of(const G& g, std::int64_t count, const F& f) {
  R top = -math::kInfinity<R>;
  for (std::int64_t i = g.lane; i < count; i += g.lanes) top = larger(top, f(i));
  top = g.max(top);
  double place = -static_cast<double>(count);
  for (std::int64_t i = count - 1 - g.lane; i >= 0; i -= g.lanes)
    if (f(i) == top) place = -static_cast<double>(i);
  place = -g.max(place);
  return {place < static_cast<double>(count) ? static_cast<std::int64_t>(place) : 0, top};
}

}  // namespace fovea::device
