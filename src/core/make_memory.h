#pragma once

#include "fovea/memory.h"

namespace fovea::kernels {

template <Device>
std::shared_ptr<Memory> make_memory(int index);  // of several devices of the kind

}  // namespace fovea::kernels
