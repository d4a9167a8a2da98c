#pragma once

#include "fovea/tensor.h"
#include "ops/spans.h"

namespace fovea::kernels {

// y_i = the sum of x_j up to i in its sequence, or from i on. Dense (rows, width); rows of no sequence are left alone.
struct RunningSum {
  Tensor x, y;
  bool back;  // from the last row to the first
  const Stretches* stretches;
};
template <Device>
void running_sums(const Context& context, const RunningSum& io);

}  // namespace fovea::kernels
