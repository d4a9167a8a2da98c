#pragma once

#include <vector>

#include "fovea/tensor.h"

namespace fovea::kernels {

// out f64 (count): floating scalars side by side; 0 for those that are undefined.
struct CollectNumbers {
  std::vector<Tensor> scalars;
  Tensor out;
};
template <Device>
void collect_numbers(const Context& context, const CollectNumbers& io);

}  // namespace fovea::kernels
