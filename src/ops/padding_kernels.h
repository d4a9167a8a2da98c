#pragma once

#include <span>

#include "fovea/tensor.h"
#include "ops/spans.h"

namespace fovea::kernels {

// y = x, with `value` in the rows that are in no span. Dense; spans (rows).
struct FillPadding {
  Tensor x, y;
  std::span<const Span> spans;
  double value;
};
template <Device>
void fill_padding(const Context& context, const FillPadding& io);

}  // namespace fovea::kernels
