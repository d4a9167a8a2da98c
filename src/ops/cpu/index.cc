#include <algorithm>
#include <vector>

#include "ops/index_kernels.h"

namespace fovea {

template <>
void kernels::first_outside<Device::cpu>(const Context&, const IndexRange& io) {
  const std::int32_t *begin = io.index.data<std::int32_t>(), *end = begin + io.index.numel();
  const auto* at = std::find_if(begin, end, [&](std::int32_t row) { return row < io.least || row >= io.limit; });
  *io.place.data<std::int64_t>() = at == end ? -1 : at - begin;
}

template <>
void kernels::first_repeated<Device::cpu>(const Context&, const IndexOnce& io) {
  const std::int64_t picks = io.index.dim(1), heads = io.index.dim(2);
  std::vector<bool> taken(static_cast<std::size_t>(io.index.dim(0) * io.rows * heads), false);
  for (std::int64_t i = 0; i < io.index.numel(); ++i) {
    const std::int32_t row = io.index.data<std::int32_t>()[i];
    if (row < 0) continue;
    auto seen = taken[static_cast<std::size_t>((i / (picks * heads) * io.rows + row) * heads + i % heads)];
    if (seen) {
      *io.place.data<std::int64_t>() = i;
      return;
    }
    seen = true;
  }
  *io.place.data<std::int64_t>() = -1;
}

}  // namespace fovea
