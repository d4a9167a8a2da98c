#pragma once

#include "mechanisms/kind.h"
#include "reference/aligned.h"

namespace fovea {

// The plain definition of a mechanism.
inline reference::Result defined(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::aligned(
      problem, [&](const reference::Problem& part) { return mechanism.kind().reference(part, mechanism); });
}

}  // namespace fovea
