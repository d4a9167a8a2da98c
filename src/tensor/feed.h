#pragma once

#include <functional>

#include "fovea/tensor.h"

namespace fovea {

// Contents that are new each time a step is run, where the context is: what `make` gives, on the host or there,
// checked. A recording calls it again before it plays, and wants the same shape.
Tensor feed(const Context& context, const std::function<Tensor()>& make);

}  // namespace fovea
