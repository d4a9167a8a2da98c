#pragma once

#include "fovea/memory.h"

namespace fovea::kernels {

template <Device>
std::shared_ptr<Memory> make_memory();

}  // namespace fovea::kernels
