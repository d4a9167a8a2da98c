#include "tile/merge.h"

#include "core/visit_device.h"
#include "tile/merge_kernels.h"

namespace fovea::tile {

void merge(const Context& context, const PartialOutput& a, const PartialOutput& b, const PartialOutput& to) {
  const kernels::Merge io{a, b, to};
  visit_device(context, io, [&]<Device D>() { kernels::merge<D>(context, io); });
}

void merge_backward(const Context& context, const MergeGradient& io) {
  visit_device(context, io, [&]<Device D>() { kernels::merge_backward<D>(context, io); });
}

}  // namespace fovea::tile
