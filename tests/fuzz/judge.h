#pragma once

#include <string>

#include "fuzz/spec.h"

namespace fovea::fuzz {

// What came of a case. docs/testing.md has the rule of the tolerances.
struct Verdict {
  std::string failure = {};              // empty: none
  bool refused = false;                  // with a named error, as it must be or as the mechanism may
  double forward = 0.0, backward = 0.0;  // largest error over its tolerance
  bool blunt = false;  // somewhere the tolerance was over half of the largest result: the case says little there
};
Verdict judge(const Spec& spec);

}  // namespace fovea::fuzz
