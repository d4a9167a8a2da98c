#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "support/drawn_parameters.h"

namespace fovea {

// A few entries of a parameter's gradient against central differences of the loss, in double.
template <class Loss>
void expect_gradient(const Parameter& p, Random& random, const Loss& loss) {
  const auto grad = p.var.grad().template to_vector<double>();
  for (int trial = 0; trial < 4; ++trial) {
    const std::int64_t i = random.below(static_cast<std::uint32_t>(grad.size()));
    double& value = p.var.value().template data<double>()[i];
    const double kept = value, step = 1e-6;
    value = kept + step;
    const double above = loss();
    value = kept - step;
    const double below = loss();
    value = kept;
    const double expected = (above - below) / (2 * step);
    EXPECT_NEAR(grad[static_cast<std::size_t>(i)], expected, 1e-6 + 1e-5 * std::abs(expected)) << p.name << " " << i;
  }
}

}  // namespace fovea
