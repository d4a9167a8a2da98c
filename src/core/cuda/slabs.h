#pragma once

#include <algorithm>
#include <cstdint>

namespace fovea::device {

// Calls f(first, count) for parts of `all` that the second or third axis of a grid holds.
template <class F>
void each_slab(std::int64_t all, const F& f) {
  constexpr std::int64_t kMost = 65535;
  for (std::int64_t first = 0; first < all; first += kMost)
    f(first, static_cast<unsigned>(std::min(kMost, all - first)));
}

}  // namespace fovea::device
