#include "ops/feed_forward_kernels.h"

namespace fovea {

// The products are the vendor's, and what lies between them stays in the cache.
template <>
Tensor kernels::feed_forward<Device::cpu>(const Context&, const FeedForward&) {
  return {};
}

}  // namespace fovea
