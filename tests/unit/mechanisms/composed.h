#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/rng.h"
#include "fovea/attention.h"

namespace fovea {

// Calls of whole mechanisms on random tokens, in double.
class Composed : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 23, kHeads = 2, kWidth = 6;

  Tensor random(const Shape& shape, std::uint64_t seed) {
    Random draw(seed);
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    for (double& x : values) x = draw.normal();
    return Tensor::from<double>(context_, shape, values);
  }
  std::vector<Var> weights_of(const std::string& text) {
    return make_weights(context_, Mechanism::parse(text),
                        {.heads = q_.dim(2), .kv_heads = k_.dim(2), .d_k = q_.dim(3), .d_v = v_.dim(3)}, DType::f64);
  }
  Var attend(Tape& tape, const std::string& text, AttentionOptions options = {}) {
    if (options.weights.empty()) options.weights = weights_of(text);
    return attention(tape, q_, k_, v_, Mechanism::parse(text), options).output;
  }
  std::vector<double> output(const std::string& text, const AttentionOptions& options = {}) {
    Tape tape(context_, {.record = false});
    return attend(tape, text, options).value().to_vector<double>();
  }
  static void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-12) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << i;
  }
  // What a call is refused with.
  ErrorCode refusal(const std::string& text, const AttentionOptions& options = {}) {
    try {
      output(text, options);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << text << " ran without a word";
    return ErrorCode::internal;
  }

  Context context_{{.seed = 5, .memory = {.poison = true}}};
  Var q_ = Var::leaf(random({2, kRows, kHeads, kWidth}, 1)), k_ = Var::leaf(random({2, kRows, kHeads, kWidth}, 2));
  Var v_ = Var::leaf(random({2, kRows, kHeads, kWidth}, 3));
};

}  // namespace fovea
