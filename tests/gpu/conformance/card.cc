#include "conformance/suite.h"

namespace fovea::conformance {

Context law_context() {
  return Context({.threads = 2, .seed = 7, .device = Device::cuda, .memory = {.poison = true}});
}

std::vector<Isa> law_isas() { return {available_isas().back()}; }

}  // namespace fovea::conformance
