#pragma once

#include "fovea/tensor.h"
#include "io/file.h"

namespace fovea {

// A NumPy array file of an f32 tensor, in one atomic step.
void write_npy(const Path& path, const Tensor& tensor);

}  // namespace fovea
