#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"
#include "fovea/attention.h"

namespace fovea {

// Random q, k, v of 21 tokens in f64, and runs of mechanisms on them with fresh weights.
class MechanismTest : public testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 21, kHeads = 2, kWidth = 8;

  Var random(const Shape& shape, std::uint64_t seed) {
    Random draw(seed);
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    for (double& x : values) x = draw.normal();
    return Var::leaf(Tensor::from<double>(context_, shape, values));
  }
  std::vector<Var> weights_of(const char* mechanism, std::int64_t max_length = kTokens, std::int64_t width = 0) {
    return make_weights(
        context_, Mechanism::parse(mechanism),
        {.heads = kHeads, .kv_heads = kHeads, .d_k = kWidth, .d_v = kWidth, .width = width, .max_length = max_length},
        DType::f64);
  }
  std::vector<double> run(const char* mechanism, const AttentionOptions& options = {}) {
    Tape tape(context_, {.record = false});
    return attention(tape, q_, k_, v_, Mechanism::parse(mechanism), options).output.value().to_vector<double>();
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
  template <class F>
  std::string error_of(F&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  Context context_{{.memory = {.poison = true}}};
  Var q_ = random({1, kTokens, kHeads, kWidth}, 1), k_ = random({1, kTokens, kHeads, kWidth}, 2),
      v_ = random({1, kTokens, kHeads, kWidth}, 3);
};

}  // namespace fovea
