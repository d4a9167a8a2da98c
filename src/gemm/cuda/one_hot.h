#pragma once

#include "fovea/tensor.h"

namespace fovea::gemm {

// table (numbers, width), f32, += the rows of g (rows, width), bf16 or f16, by their numbers i32 (rows), all dense: the
// gradient of a weight that one-hot rows are multiplied by. False, and nothing done: not for these sizes.
struct OneHotSum {
  Tensor numbers, g, table;
};
bool add_one_hot(const Context& context, const OneHotSum& io);

}  // namespace fovea::gemm
