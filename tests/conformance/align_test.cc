#include "conformance/suite.h"

// Rectangular causal calls whose first query stands on the first key.
namespace fovea::conformance {
namespace {

class TopLeft : public Law {
 protected:
  static constexpr std::int64_t kQueries = 9, kKeys = 21;

  bool applies() const { return has(Feature::causal) && has(Feature::cross); }
  Trial trial() const {
    Trial s;
    fit(mechanism(), s);
    s.n_q = kQueries;
    s.n_k = kKeys;
    s.options.causal = true;
    s.options.align = Align::top_left;
    return s;
  }
  // The same call on the keys that a query can see.
  static Trial square(Trial s) {
    s.n_k = kQueries;
    s.options.align = Align::bottom_right;
    return s;
  }
  Inputs first_keys(const Inputs& inputs) {
    const auto cut = [&](const Var& x) { return Var::leaf(x.value().slice(1, 0, kQueries).contiguous(context_)); };
    Inputs few{Var::leaf(inputs.q.value().contiguous(context_)), cut(inputs.k), cut(inputs.v), {}, inputs.weights};
    if (inputs.input.defined()) few.input = cut(inputs.input);
    return few;
  }
  // Ways of calling that depend on positions or lengths.
  std::vector<Trial> trials() const {
    std::vector<Trial> all{trial()};
    const auto add = [&](Feature feature, auto&& change) {
      if (!has(feature)) return;
      all.push_back(trial());
      change(all.back().options);
    };
    add(Feature::rotary, [](AttentionOptions& o) { o.rotary = Rotary{}; });
    add(Feature::alibi, [](AttentionOptions& o) { o.alibi = true; });
    add(Feature::window, [](AttentionOptions& o) { o.window = Window{3, -1}; });
    add(Feature::state, [](AttentionOptions& o) { o.final_state = true; });
    add(Feature::padding, [](AttentionOptions& o) {
      o.queries.lengths = {9, 4};
      o.keys.lengths = {12, 21};
    });
    return all;
  }
};

TEST_P(TopLeft, MatchesTheDefinition) {
  if (!applies() || !has(Feature::strict)) return;
  for (const Trial& s : trials()) {
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f64, 3);
    Tape tape(context_, {.record = false});
    const AttentionResult got = run(context_, tape, inputs, mechanism(), s);
    const Expected wanted = expected(context_, inputs, mechanism(), s);
    EXPECT_LT(relative_error(got.output.value().to_vector<double>(), wanted.o), 1e-12);
    if (got.final_state.defined()) {
      EXPECT_LT(relative_error(got.final_state.value().to_vector<double>(), wanted.final_state), 1e-12);
    }
  }
}

TEST_P(TopLeft, LaterKeysCountForNothing) {
  if (!applies()) return;
  const Trial s = trial(), few = square(s);
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f64, 3), cut = first_keys(inputs);
  const Gradients got = gradients(context_, inputs, mechanism(), s),
                  wanted = gradients(context_, cut, mechanism(), few);
  Tape tape(context_, {.record = false});
  EXPECT_LT(relative_error(run(context_, tape, inputs, mechanism(), s).output.value().to_vector<double>(),
                           run(context_, tape, cut, mechanism(), few).output.value().to_vector<double>()),
            1e-12);
  EXPECT_LT(relative_error(got.q, wanted.q), 1e-11);
  for (const auto& [whole, part] : {std::pair(&got.k, &wanted.k), std::pair(&got.v, &wanted.v)}) {
    const std::size_t item = whole->size() / static_cast<std::size_t>(s.batch), kept = part->size() / 2;
    for (std::size_t b = 0; b < 2; ++b) {
      const auto begin = whole->begin() + static_cast<std::ptrdiff_t>(b * item);
      const auto want = part->begin() + static_cast<std::ptrdiff_t>(b * kept);
      EXPECT_LT(relative_error({begin, begin + static_cast<std::ptrdiff_t>(kept)},
                               {want, want + static_cast<std::ptrdiff_t>(kept)}),
                1e-11);
      EXPECT_EQ(
          std::vector<double>(begin + static_cast<std::ptrdiff_t>(kept), begin + static_cast<std::ptrdiff_t>(item)),
          std::vector<double>(item - kept, 0.0));
    }
  }
}

// With more queries than keys the first are a square call, and what the last key's query sees, the others see, too.
TEST_P(TopLeft, QueriesBehindTheLastKeyStandOnIt) {
  if (!applies()) return;
  Trial s = trial();
  s.n_q = kKeys;
  s.n_k = kQueries;
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f64, 3);
  const Tensor q = inputs.q.value(), on_last = q.slice(1, kQueries - 1, kQueries);
  for (std::int64_t i = kQueries; i < kKeys; ++i) q.slice(1, i, i + 1).copy_from(on_last);
  Inputs first = inputs, alone = inputs;
  first.q = Var(q.slice(1, 0, kQueries));
  alone.q = Var(on_last);
  const auto output = [&](const Inputs& of, std::int64_t n_q, Align align) {
    Trial part = s;
    part.n_q = n_q;
    part.options.align = align;
    Tape tape(context_, {.record = false});
    return run(context_, tape, of, mechanism(), part).output.value();
  };
  const Tensor got = output(inputs, kKeys, Align::top_left);
  const auto rows = [&](std::int64_t begin, std::int64_t end) { return got.slice(1, begin, end).to_vector<double>(); };
  EXPECT_LT(relative_error(rows(0, kQueries), output(first, kQueries, Align::bottom_right).to_vector<double>()), 1e-12);
  const std::vector<double> last = output(alone, 1, Align::bottom_right).to_vector<double>();
  for (std::int64_t i = kQueries; i < kKeys; ++i) EXPECT_LT(relative_error(rows(i, i + 1), last), 1e-12) << i;
}

TEST_P(TopLeft, WhatItCannotMeanIsNamed) {
  if (!applies()) return;
  if (!has(Feature::bidirectional)) return;
  Trial s = trial();
  s.options.causal = false;
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  Tape tape(context_, {.record = false});
  try {
    run(context_, tape, inputs, mechanism(), s);
    ADD_FAILURE() << "ran without a word";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(std::string(error.what()).find("align"), std::string::npos) << error.what();
  }
}

FOVEA_LAWS(TopLeft);

}  // namespace
}  // namespace fovea::conformance
