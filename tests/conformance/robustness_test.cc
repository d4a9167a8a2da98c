#include <algorithm>
#include <cmath>

#include "conformance/suite.h"

// U7, U8, U9: empty rows, huge scores, and the same bits however many threads there are.
namespace fovea::conformance {
namespace {

class Robustness : public Law {
 protected:
  static bool all_finite(const std::vector<double>& x) {
    return std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); });
  }
  static bool all_zero(const std::vector<double>& x) {
    return std::all_of(x.begin(), x.end(), [](double v) { return v == 0.0; });
  }
  // The same bits; within rounding where the vendor's product decides about the last ones.
  template <class T>
  void expect_same(const std::vector<T>& a, const std::vector<T>& b) const {
    if (!mechanism().kind().rounds_freely) {
      EXPECT_EQ(a, b);
    } else {
      EXPECT_LT(relative_error({a.begin(), a.end()}, {b.begin(), b.end()}), 1e-5);
    }
  }
  // No pair of a query and a key: zeros, whatever padding holds, and gradients of zero.
  void expect_nothing(Trial s) {
    if (has(Feature::bias)) {
      s.options.bias = Var::leaf(Tensor::zeros(context_, {1, s.heads, 1, s.n_k}, DType::f32));
    }
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
    if (!s.options.queries.empty())
      for (const Var& x : inputs.tokens()) x.value().fill(NAN);
    Tape tape(context_, {.record = false});
    const Tensor o = run(context_, tape, inputs, mechanism(), s).output.value();
    EXPECT_EQ(o.shape(), (Shape{s.batch, s.n_q, s.heads, s.d_v}));
    EXPECT_TRUE(all_zero(o.to_vector<double>()));
    const Gradients g = gradients(context_, inputs, mechanism(), s);
    for (const std::vector<double>* x : {&g.q, &g.k, &g.v, &g.bias, &g.input}) EXPECT_TRUE(all_zero(*x));
    for (const std::vector<double>& x : g.weights) EXPECT_TRUE(all_zero(x));
  }
  // This many tokens, or as many as the mechanism says it takes.
  std::int64_t longest(std::int64_t n) const {
    for (const ParameterSpec& spec : mechanism().parameters())
      if (spec.name == "max_length" && mechanism().integer("max_length") > 0)
        n = std::min(n, mechanism().integer("max_length"));
    return n;
  }
  static void expect_finite(const Gradients& g) {
    EXPECT_TRUE(all_finite(g.q)) << "dq";
    EXPECT_TRUE(all_finite(g.k)) << "dk";
    EXPECT_TRUE(all_finite(g.v)) << "dv";
  }
};

// More queries than keys: the first ones see nothing.
TEST_P(Robustness, RowsWithoutKeysAreZero) {
  if (!has(Feature::causal) || !has(Feature::cross)) return;
  Trial s;
  fit(mechanism(), s);
  s.n_k = 8;
  s.options.causal = true;
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  Tape tape(context_, {.record = false});
  const Tensor o = run(context_, tape, inputs, mechanism(), s).output.value();
  EXPECT_TRUE(all_zero(o.slice(1, 0, s.n_q - s.n_k).to_vector<double>()));
  EXPECT_FALSE(all_zero(o.slice(1, s.n_q - s.n_k, s.n_q).to_vector<double>()));
  const Gradients g = gradients(context_, inputs, mechanism(), s);
  expect_finite(g);
  const std::size_t row = static_cast<std::size_t>(s.heads * s.d_k), empty = static_cast<std::size_t>(s.n_q - s.n_k);
  EXPECT_TRUE(all_zero({g.q.begin(), g.q.begin() + static_cast<std::ptrdiff_t>(row * empty)}));
}

TEST_P(Robustness, NoKeysAtAll) {
  if (!has(Feature::padding) || !has(Feature::cross)) return;
  Trial s = usual_trial(mechanism());
  s.options.queries.lengths = {19, 19};
  s.options.keys.lengths = {0, 19};
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  for (const Var* x : {&inputs.k, &inputs.v}) x->value().select(0, 0).fill(NAN);
  Tape tape(context_, {.record = false});
  const Tensor o = run(context_, tape, inputs, mechanism(), s).output.value();
  EXPECT_TRUE(all_zero(o.select(0, 0).to_vector<double>()));
  EXPECT_TRUE(all_finite(o.select(0, 1).to_vector<double>()));
  expect_finite(gradients(context_, inputs, mechanism(), s));
}

TEST_P(Robustness, NoBatch) {
  Trial s = usual_trial(mechanism());
  s.batch = 0;
  expect_nothing(s);
}

TEST_P(Robustness, NoTokens) {
  Trial s = usual_trial(mechanism());
  s.n_q = s.n_k = 0;
  expect_nothing(s);
}

TEST_P(Robustness, NoQueries) {
  if (!has(Feature::cross)) return;
  Trial s = usual_trial(mechanism());
  s.n_q = 0;
  expect_nothing(s);
}

TEST_P(Robustness, NoKeys) {
  if (!has(Feature::cross)) return;
  Trial s = usual_trial(mechanism());
  s.n_k = 0;
  expect_nothing(s);
}

TEST_P(Robustness, EverySequenceIsEmpty) {
  if (has(Feature::padding)) {
    Trial s = usual_trial(mechanism());
    s.options.queries.lengths = {0, 0};
    expect_nothing(s);
  }
  if (has(Feature::packed)) {
    Trial s = usual_trial(mechanism());
    s.batch = 1;
    s.options.queries.cu_seqlens = {0, 0, 0};
    expect_nothing(s);
  }
}

TEST_P(Robustness, HugeScoresStayFinite) {
  for (const double size : {1e2, -1e2}) {
    Trial s = usual_trial(mechanism());
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
    edit(inputs.q.value(), [&](double x, std::size_t) { return size * x; });
    edit(inputs.k.value(), [](double x, std::size_t) { return 1e2 * x; });
    Tape tape(context_, {.record = false});
    EXPECT_TRUE(all_finite(run(context_, tape, inputs, mechanism(), s).output.value().to_vector<double>()));
    expect_finite(gradients(context_, inputs, mechanism(), s));
  }
}

// Sums and statistics are f32: long rows give in f16 what they give in f32, wherever f16 can hold the result; also
// where scores are not made smaller, and their squares and exponentials large.
TEST_P(Robustness, LongHalfRows) {
  for (const bool scaled : {true, false}) {
    if (!scaled && !has(Feature::scale)) continue;
    Trial s = usual_trial(mechanism());
    s.batch = 1;
    s.n_q = s.n_k = longest(2048);
    s.heads = s.kv_heads = 1;
    s.d_k = s.d_v = 64;
    s.width = 64;
    if (!scaled) s.options.scale = 1.0;
    const Inputs half = random_inputs(context_, mechanism(), s, DType::f16, 3);
    const auto wide = [&](const Var& x) { return Var::leaf(x.value().to(context_, DType::f32)); };
    Tape tape(context_, {.record = false});
    const auto output = [&](const Inputs& x) {
      return run(context_, tape, x, mechanism(), s).output.value().to_vector<double>();
    };
    const std::vector<double> got = output(half), want = output(half.with(wide));
    if (std::any_of(want.begin(), want.end(), [](double x) { return std::abs(x) > 6e4; })) continue;
    EXPECT_TRUE(all_finite(got));
    if (scaled && !mechanism().kind().chooses) {
      EXPECT_LT(relative_error(got, want), 2e-3);
    }
    expect_finite(gradients(context_, half, mechanism(), s));
  }
}

TEST_P(Robustness, SameBitsAtAnyThreadCount) {
  for (const OptionCase& option : option_cases()) {
    if (!supports(mechanism(), option.needs)) continue;
    SCOPED_TRACE(option.name);
    const Trial trial = make_trial(context_, option, mechanism(), DType::f32);
    const Inputs inputs = random_inputs(context_, mechanism(), trial, DType::f32, 3);
    context_.set_threads(1);
    Tape tape(context_, {.training = trial.training});
    const std::vector<float> o = run(context_, tape, inputs, mechanism(), trial).output.value().to_vector<float>();
    const Gradients g = gradients(context_, inputs, mechanism(), trial);
    for (const int threads : {2, 3}) {
      context_.set_threads(threads);
      Tape again(context_, {.training = trial.training});
      expect_same(o, run(context_, again, inputs, mechanism(), trial).output.value().to_vector<float>());
      const Gradients h = gradients(context_, inputs, mechanism(), trial);
      expect_same(g.q, h.q);
      expect_same(g.k, h.k);
      expect_same(g.v, h.v);
      expect_same(g.bias, h.bias);
      expect_same(g.initial_state, h.initial_state);
    }
  }
}

// What a mechanism does not have, it refuses by name.
TEST_P(Robustness, UnsupportedCallsAreNamed) {
  for (const OptionCase& option : option_cases()) {
    if (supports(mechanism(), option.needs) || option.name == "state" || option.name == "state_causal") continue;
    SCOPED_TRACE(option.name);
    const Trial trial = make_trial(context_, option, mechanism(), DType::f32);
    const Inputs inputs = random_inputs(context_, mechanism(), trial, DType::f32, 3);
    Tape tape(context_, {.record = false});
    try {
      run(context_, tape, inputs, mechanism(), trial);
      ADD_FAILURE() << "ran without a word";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(error.message().find(std::string(mechanism().name())), std::string::npos) << error.what();
    }
  }
}

TEST_P(Robustness, AMissingStepFormIsNamed) {
  if (has(Feature::step)) return;
  const Trial s = usual_trial(mechanism());
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  AttentionOptions options;
  options.weights = inputs.weights;
  options.input = inputs.input;
  std::vector<DecodeState> states(static_cast<std::size_t>(s.batch));
  std::vector<DecodeState*> pointers;
  for (DecodeState& state : states) pointers.push_back(&state);
  Tape tape(context_, {.record = false});
  try {
    attention_step(tape, inputs.q.value(), inputs.k.value(), inputs.v.value(), mechanism(), pointers, options);
    ADD_FAILURE() << "ran without a word";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find(std::string(mechanism().name())), std::string::npos) << error.what();
  }
}

// Zeros, unless it reads learned tokens besides.
TEST_P(Robustness, APatternMayKeepNothing) {
  if (!has(Feature::pattern)) return;
  Trial s = usual_trial(mechanism());
  s.options.pattern = Pattern::predicate("nothing", [](std::int64_t, std::int64_t) { return false; });
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  Tape tape(context_, {.record = false});
  const std::vector<double> o = run(context_, tape, inputs, mechanism(), s).output.value().to_vector<double>();
  EXPECT_LT(relative_error(o, expected(context_, inputs, mechanism(), s).o), 2e-5);
  const Gradients g = gradients(context_, inputs, mechanism(), s);
  expect_finite(g);
  if (!inputs.weights.empty()) return;
  EXPECT_TRUE(all_zero(o));
  for (const std::vector<double>* x : {&g.q, &g.k, &g.v}) EXPECT_TRUE(all_zero(*x));
}

FOVEA_LAWS(Robustness);

}  // namespace
}  // namespace fovea::conformance
