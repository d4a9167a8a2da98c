#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "fovea/ops.h"
#include "support/tensors.h"

namespace fovea::testing {

// What tests of operations share: numbers, drawn or given, in memory that is NaN until it is written, and a tape.
class OpsTest : public ::testing::Test {
 protected:
  explicit OpsTest(std::uint64_t seed, TapeOptions options = {}) : tape_(context_, options), seed_(seed) {}

  Tensor draw(const Shape& shape, DType dtype = DType::f64) { return random(context_, shape, ++seed_, dtype); }
  Tensor values(const Shape& shape, const std::vector<double>& v) { return Tensor::from<double>(context_, shape, v); }
  Tensor ids(const Shape& shape, const std::vector<std::int32_t>& v) { return integers(context_, shape, v); }
  static std::vector<double> list(const Var& x) { return x.value().to_vector<double>(); }

  Context context_ = poisoned();
  Tape tape_;
  std::uint64_t seed_;
};

inline constexpr TapeOptions kTraining{.record = true, .training = true};

}  // namespace fovea::testing
