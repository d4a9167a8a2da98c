#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/attention.h"
#include "support/draws.h"

namespace fovea {

// What tests of mechanisms share: random q, k and v in double, fresh memory full of NaN, and calls on them.
class MechanismCalls {
 protected:
  using Values = std::vector<double>;

  explicit MechanismCalls(const Shape& shape = {1, 21, 2, 8}, std::uint64_t seed = ContextOptions().seed)
      : context_({.seed = seed, .memory = {.poison = true}}),
        q_(random(shape, 1)),
        k_(random(shape, 2)),
        v_(random(shape, 3)) {}

  // A leaf of normal numbers.
  Var random(const Shape& shape, std::uint64_t seed, double size = 1.0) {
    Random draws(seed);
    return Var::leaf(testing::random(context_, shape, draws, DType::f64, size));
  }
  Var filled(const Shape& shape, double value) {
    const Tensor t = Tensor::empty(context_, shape, DType::f64);
    t.fill(value);
    return Var::leaf(t);
  }

  Values run(const std::string& mechanism, const AttentionOptions& options = {}) {
    return run_on({q_, k_, v_}, mechanism, options);
  }
  Values run_on(const std::vector<Var>& qkv, const std::string& mechanism, const AttentionOptions& options = {}) {
    Tape tape(context_, {.record = false});
    return attention(tape, qkv[0], qkv[1], qkv[2], Mechanism::parse(mechanism), options)
        .output.value()
        .to_vector<double>();
  }

  static void expect_near(const Values& got, const Values& want, double tolerance = 1e-12,
                          const std::string& what = "") {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << what << " at " << i;
  }
  template <class F>
  static std::string error_of(F&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  Context context_;
  Var q_, k_, v_;
};

}  // namespace fovea
