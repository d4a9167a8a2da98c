#include "core/rng.h"

#include <cmath>
#include <numbers>

namespace fovea {

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_double()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform_double());
}

}  // namespace fovea
