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
  // The calls whose steps are compared.
  std::vector<Trial> step_trials() {
    std::vector<Trial> trials{trial()};
    const auto with = [&](Feature feature, const auto& set) {
      if (!has(feature)) return;
      trials.push_back(trial());
      set(trials.back().options);
    };
    with(Feature::rotary, [](AttentionOptions& o) { o.rotary = Rotary{}; });
    with(Feature::window, [](AttentionOptions& o) { o.window = Window{5, -1}; });
    with(Feature::alibi, [](AttentionOptions& o) { o.alibi = true; });
    return trials;
  }
  Tensor step(Tape& tape, const Inputs& inputs, AttentionOptions options, const std::vector<DecodeState*>& states) {
    options.weights = inputs.weights;
    options.input = inputs.input;
    return attention_step(tape, inputs.q.value(), inputs.k.value(), inputs.v.value(), mechanism(), states, options);
  }
  static std::vector<DecodeState*> pointers(std::vector<DecodeState>& states) {
    std::vector<DecodeState*> all;
    for (DecodeState& state : states) all.push_back(&state);
    return all;
  }
  static Inputs rows_of(const Inputs& inputs, std::int64_t begin, std::int64_t end) {
    return inputs.with([&](const Var& x) { return Var(x.value().slice(1, begin, end)); });
  }
  // The rows of all, one after another.
  Inputs joined(const std::vector<Inputs>& parts) {
    const auto join = [&](Var Inputs::*which) {
      if (!(parts[0].*which).defined()) return Var();
      std::int64_t n = 0;
      for (const Inputs& part : parts) n += (part.*which).dim(1);
      const Tensor all = Tensor::empty(context_, (parts[0].*which).shape().with(1, n));
      n = 0;
      for (const Inputs& part : parts) {
        const Tensor& rows = (part.*which).value();
        all.slice(1, n, n + rows.dim(1)).copy_from(rows);
        n += rows.dim(1);
      }
      return Var(all);
    };
    return {join(&Inputs::q), join(&Inputs::k), join(&Inputs::v), join(&Inputs::input), parts[0].weights};
  }
  // What each sequence gives when all go on together: first a prompt of a third of it, then token by token.
  std::vector<std::vector<float>> stepped(const std::vector<Inputs>& sequences, AttentionOptions options) {
    std::vector<std::vector<float>> out(sequences.size());
    std::vector<DecodeState> states(sequences.size());
    Tape tape(context_, {.record = false});
    for (std::int64_t round = 0;; ++round) {
      std::vector<std::size_t> open;
      std::vector<DecodeState*> pasts;
      std::vector<Inputs> parts;
      std::vector<std::int32_t>& ends = options.queries.cu_seqlens = {0};
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        const std::int64_t end = sequences[i].q.dim(1) / 3 + round, begin = round == 0 ? 0 : end - 1;
        if (end > sequences[i].q.dim(1)) continue;
        open.push_back(i);
        pasts.push_back(&states[i]);
        parts.push_back(rows_of(sequences[i], begin, end));
        ends.push_back(ends.back() + static_cast<std::int32_t>(end - begin));
      }
      if (open.empty()) return out;
      const Tensor rows = step(tape, joined(parts), options, pasts);
      for (std::size_t i = 0; i < open.size(); ++i) {
        const auto values = rows.slice(1, ends[i], ends[i + 1]).to_vector<float>();
        out[open[i]].insert(out[open[i]].end(), values.begin(), values.end());
      }
    }
  }
  static std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }
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
  for (const Trial& s : step_trials()) {
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
    const std::vector<double> whole = output(inputs, s).to_vector<double>();
    const Tensor steps = Tensor::zeros(context_, {s.batch, s.n_q, s.heads, s.d_v});
    std::vector<DecodeState> states(static_cast<std::size_t>(s.batch));
    Tape tape(context_, {.record = false});
    for (std::int64_t t = 0; t < s.n_q;) {
      const std::int64_t count = t == 0 ? 5 : 1;  // a prompt, then one by one
      const auto part = [&](const Var& x) { return Var(x.value().slice(1, t, t + count)); };
      steps.slice(1, t, t + count).copy_from(step(tape, inputs.with(part), s.options, pointers(states)));
      t += count;
    }
    EXPECT_EQ(states[1].length, s.n_q);
    EXPECT_LT(relative_error(steps.to_vector<double>(), whole), 1e-5);
  }
}

// Sequences of different lengths go on side by side; some are over before others, and leave. Each gets the bits that it
// gets alone, and the rows of the parallel form.
TEST_P(Causal, StepsAreTheSameInAnyCompany) {
  if (!has(Feature::step) || !has(Feature::packed)) return;
  for (Trial& s : step_trials()) {
    s.batch = 1;
    std::vector<Inputs> sequences;
    for (const std::int64_t length : {12, 9, 37, 20}) {
      s.n_q = s.n_k = length;
      sequences.push_back(random_inputs(context_, mechanism(), s, DType::f32, static_cast<std::uint64_t>(length)));
      sequences.back().weights = sequences[0].weights;
    }
    const std::vector<std::vector<float>> together = stepped(sequences, s.options);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      s.n_q = s.n_k = sequences[i].q.dim(1);
      EXPECT_LT(relative_error(doubles(together[i]), output(sequences[i], s).to_vector<double>()), 1e-5);
      const std::vector<float> alone = stepped({sequences[i]}, s.options)[0];
      // A card's products choose their way by the number of rows.
      if (mechanism().kind().rounds_freely || context_.device() == Device::cuda)
        EXPECT_LT(relative_error(doubles(together[i]), doubles(alone)), 1e-5);
      else
        EXPECT_EQ(together[i], alone) << "sequence " << i;
    }
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
