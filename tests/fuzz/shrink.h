#pragma once

#include <functional>
#include <string>

#include "fuzz/spec.h"

namespace fovea::fuzz {

// Runs a case in a process of its own: what failed, a signal included; empty: nothing.
std::string failure_of(const Spec& spec);

struct Found {
  Spec spec;
  std::string failure;
};
// A simpler case that fails in the same way: fewer options, shorter, narrower, until nothing more can go.
Found shrink(const Found& found);

}  // namespace fovea::fuzz
