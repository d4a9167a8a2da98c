#include <algorithm>
#include <vector>

#include "ops/index_kernels.h"

namespace fovea {

// Blocks without branches first: nearly always all is well.
template <>
void kernels::first_outside<Device::cpu>(const Context&, const IndexRange& io) {
  constexpr std::int64_t kBlock = 4096;
  const std::int32_t* const rows = io.index.data<std::int32_t>();
  const std::int64_t count = io.index.numel(), least = io.least, limit = io.limit;
  const auto wrong = [=](std::int32_t row) { return row < least || row >= limit; };
  std::int64_t place = -1;
  for (std::int64_t begin = 0; begin < count && place < 0; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    int any = 0;
    for (std::int64_t i = begin; i < end; ++i) any |= static_cast<int>(wrong(rows[i]));
    if (any != 0) place = std::find_if(rows + begin, rows + end, wrong) - rows;
  }
  *io.place.data<std::int64_t>() = place;
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
