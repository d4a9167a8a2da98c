#pragma once

#include "fovea/context.h"

namespace fovea {

// Bytes per second that the context's threads copy from one block to another, neither of which fits a cache: 64 MiB
// read and as many written. Copies once before it looks at the clock.
double copy_rate(const Context& context);

}  // namespace fovea
