#pragma once

#include "tile/merge.h"

namespace fovea::tile::kernels {

struct Merge {
  PartialOutput a, b, to;
};
template <Device>
void merge(const Context& context, const Merge& io);

template <Device>
void merge_backward(const Context& context, const MergeGradient& io);

}  // namespace fovea::tile::kernels
