#pragma once

#include <cmath>

#include "unit/mechanisms/mechanism_calls.h"

namespace fovea {

// 21 tokens, and runs of mechanisms on them with fresh weights.
class MechanismTest : public MechanismCalls, public ::testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 21, kHeads = 2, kWidth = 8;

  std::vector<Var> weights_of(const char* mechanism, std::int64_t max_length = kTokens, std::int64_t width = 0) {
    return make_weights(
        context_, Mechanism::parse(mechanism),
        {.heads = kHeads, .kv_heads = kHeads, .d_k = kWidth, .d_v = kWidth, .width = width, .max_length = max_length},
        DType::f64);
  }
  std::vector<double> run_fresh(const char* mechanism, AttentionOptions options = {}) {
    options.weights = weights_of(mechanism);
    return run(mechanism, options);
  }
  static void fill(const Var& x, double value) { x.value().fill(value); }
  static double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size()) return NAN;
    double worst = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::fmax(worst, std::abs(a[i] - b[i]));
    return worst;
  }
  // Every row and head holds the same values as the first one.
  static double largest_spread(const std::vector<double>& o) {
    double worst = 0.0;
    for (std::size_t i = 0; i < o.size(); ++i)
      worst = std::fmax(worst, std::abs(o[i] - o[i % static_cast<std::size_t>(kHeads * kWidth)]));
    return worst;
  }
};

}  // namespace fovea
