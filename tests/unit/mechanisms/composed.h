#pragma once

#include "unit/mechanisms/mechanism_calls.h"

namespace fovea {

// Calls of whole mechanisms on random tokens, in double.
class Composed : public MechanismCalls, public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 23, kHeads = 2, kWidth = 6;

  Composed() : MechanismCalls({2, kRows, kHeads, kWidth}, 5) {}

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
};

}  // namespace fovea
