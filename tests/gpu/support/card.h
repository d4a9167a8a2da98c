#pragma once

#include "core/cuda/card_memory.h"
#include "support/tensors.h"

namespace fovea::testing {

// A context on the first card whose fresh memory is all NaN.
inline Context poisoned_card() {
  return Context({.threads = 2, .seed = 7, .device = Device::cuda, .memory = {.poison = true}});
}

inline device::CardMemory& memory_of(const Context& context) { return device::card_memory(*context.memory()); }

}  // namespace fovea::testing
