#include <algorithm>

#include "tensor/convert_kernels.h"
#include "tensor/cuda/rows.cuh"
#include "tensor/cuda/upload.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// A stretch of a tensor, for a block.
struct Stretch {
  Elements<float> from, to;
  std::int64_t begin, end;
};

}  // namespace

template <>
void kernels::convert<Device::cuda>(const Context& context, const ConvertTensors& io) {
  constexpr std::int64_t kLength = 2048;
  std::vector<Stretch> list;
  for (std::size_t i = 0; i < io.from.size(); ++i)
    for (std::int64_t begin = 0; begin < io.from[i].numel(); begin += kLength)
      list.push_back({elements<float>(io.from[i]), elements<float>(io.to[i]), begin,
                      std::min(io.from[i].numel(), begin + kLength)});
  const auto uploaded = upload(context, list);
  const Stretch* const stretches = uploaded.data();
  rows(context, uploaded.size(), kWidestOfWarp + 1, [=] __device__(const auto& group) {
    const Stretch& stretch = stretches[group.row];
    for (std::int64_t i = stretch.begin + group.lane; i < stretch.end; i += group.lanes)
      stretch.to.put(i, stretch.from[i]);
  });
}

}  // namespace fovea
