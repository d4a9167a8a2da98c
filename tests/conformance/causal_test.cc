#include <algorithm>
#include <cmath>

#include "conformance/suite.h"

// U3 and U6: nothing leaks from the future, and the step form is the parallel form.
namespace fovea::conformance {
namespace {

class Causal : public Law {
 protected:
  Trial trial() {
    Trial s;
    s.n_q = s.n_k = 37;
    s.options.causal = true;
    fit(mechanism(), s);
    return s;
  }
  // The values of rows [begin, end) of a (b, n, heads, d) tensor.
  static std::vector<float> rows(const Tensor& x, std::int64_t begin, std::int64_t end) {
    return x.slice(1, begin, end).to_vector<float>();
  }
  Tensor output(const Inputs& inputs, const Trial& s) {
    Tape tape(context_, {.record = false});
    return run(context_, tape, inputs, mechanism(), s).output.value();
  }
};

TEST_P(Causal, TheFutureDoesNotReachThePast) {
  if (!has(Feature::causal) || !has(Feature::strict)) return;
  const Trial s = trial();
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  const Tensor before = output(inputs, s);
  for (const std::int64_t t : {1, 16, 32, 36}) {
    Inputs changed = random_inputs(context_, mechanism(), s, DType::f32, 3);
    for (const Var& x : changed.tokens()) x.value().slice(1, t, s.n_k).fill(3.25);
    const Tensor after = output(changed, s);
    if (mechanism().kind().rounds_freely) {
      EXPECT_LT(relative_error(before.slice(1, 0, t).to_vector<double>(), after.slice(1, 0, t).to_vector<double>()),
                1e-5);
    } else {
      EXPECT_EQ(rows(before, 0, t), rows(after, 0, t)) << "changed from token " << t;
    }
    EXPECT_NE(rows(before, t, s.n_q), rows(after, t, s.n_q)) << "the change must show somewhere";
  }
}

TEST_P(Causal, NoGradientFlowsToTheFuture) {
  const auto leaks = mechanism().kind().leaks;
  if (!has(Feature::causal) || (leaks != nullptr && leaks(mechanism()))) return;
  const Trial s = trial();
  constexpr std::int64_t kCut = 20;
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  Tape tape(context_);
  const Var o = run(context_, tape, inputs, mechanism(), s).output;
  const Tensor seed = Tensor::zeros(context_, o.shape());
  seed.slice(1, 0, kCut).fill(1.0);
  tape.backward(o, seed);
  for (const Var& x : inputs.tokens()) {
    const std::vector<float> future = rows(x.grad(), kCut, s.n_k), past = rows(x.grad(), 0, kCut);
    float most = 0.0f;
    for (const float g : past) most = std::max(most, std::abs(g));
    const float allowed = mechanism().kind().rounds_freely ? 1e-5f * most : 0.0f;
    EXPECT_TRUE(std::all_of(future.begin(), future.end(), [&](float g) { return std::abs(g) <= allowed; }));
    const bool read = !mechanism().kind().style.values_only || x.slot() == inputs.v.slot();
    EXPECT_EQ(std::any_of(past.begin(), past.end(), [](float g) { return g != 0.0f; }), read);
  }
}

TEST_P(Causal, StepsGiveTheParallelForm) {
  if (!has(Feature::step)) return;
  std::vector<Trial> trials{trial()};
  if (has(Feature::rotary)) {
    trials.push_back(trial());
    trials.back().options.rotary = Rotary{};
  }
  if (has(Feature::window)) {
    trials.push_back(trial());
    trials.back().options.window = Window{5, -1};
  }
  if (has(Feature::alibi)) {
    trials.push_back(trial());
    trials.back().options.alibi = true;
  }
  for (const Trial& s : trials) {
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
    const std::vector<double> whole = output(inputs, s).to_vector<double>();
    const Tensor steps = Tensor::zeros(context_, {s.batch, s.n_q, s.heads, s.d_v});
    DecodeState state;
    AttentionOptions options = s.options;
    for (std::int64_t t = 0; t < s.n_q;) {
      const std::int64_t count = t == 0 ? 5 : 1;  // a prompt, then one by one
      const auto part = [&](const Var& x) { return x.value().slice(1, t, t + count); };
      options.weights = inputs.weights;
      if (inputs.input.defined()) options.input = part(inputs.input);
      steps.slice(1, t, t + count)
          .copy_from(
              attention_step(context_, part(inputs.q), part(inputs.k), part(inputs.v), mechanism(), state, options));
      t += count;
    }
    EXPECT_EQ(state.length, s.n_q);
    EXPECT_LT(relative_error(steps.to_vector<double>(), whole), 1e-5);
  }
}

TEST_P(Causal, ACarriedStateContinuesTheSequence) {
  if (!has(Feature::state) || !has(Feature::causal)) return;
  const Trial s = trial();
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  const std::vector<double> whole = output(inputs, s).to_vector<double>();
  const Tensor parts = Tensor::zeros(context_, {s.batch, s.n_q, s.heads, s.d_v});
  Tape tape(context_, {.record = false});
  AttentionOptions options = s.options;
  options.final_state = true;
  std::int64_t begin = 0;
  for (const std::int64_t end : {10, 11, 37}) {
    const auto part = [&](const Var& x) { return Var(x.value().slice(1, begin, end)); };
    options.weights = inputs.weights;
    if (inputs.input.defined()) options.input = part(inputs.input);
    const AttentionResult r = attention(tape, part(inputs.q), part(inputs.k), part(inputs.v), mechanism(), options);
    parts.slice(1, begin, end).copy_from(r.output.value());
    options.initial_state = r.final_state;
    begin = end;
  }
  EXPECT_LT(relative_error(parts.to_vector<double>(), whole), 1e-5);
}

FOVEA_LAWS(Causal);

}  // namespace
}  // namespace fovea::conformance
