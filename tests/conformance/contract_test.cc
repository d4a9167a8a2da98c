#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "conformance/suite.h"

// What holds beside the definitions: rows that see nothing, NaN where it must not matter or must be named, states that
// fit together, weights that are explained.
namespace fovea::conformance {
namespace {

class Contract : public Law {
 protected:
  static bool all_zero(const std::vector<double>& x) {
    return std::all_of(x.begin(), x.end(), [](double v) { return v == 0.0; });
  }
  static bool all_finite(const std::vector<double>& x) {
    return std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); });
  }
};

TEST_P(Contract, PaddingOfNaNGetsNoGradient) {
  if (!has(Feature::padding)) return;
  for (const bool rotary : {false, true}) {
    if (rotary && !has(Feature::rotary)) continue;
    Trial s = usual_trial(mechanism());
    constexpr std::int64_t kLength = 8;
    s.options.queries.lengths = {19, kLength};
    if (rotary) s.options.rotary = Rotary{};
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
    for (const Var& x : inputs.tokens()) x.value().select(0, 1).slice(0, kLength, s.n_q).fill(NAN);
    const Gradients g = gradients(context_, inputs, mechanism(), s);
    std::vector<const std::vector<double>*> all{&g.q, &g.k, &g.v};
    if (!g.input.empty()) all.push_back(&g.input);
    for (const std::vector<double>* x : all) {
      EXPECT_TRUE(all_finite(*x)) << "rotary " << rotary;
      const auto padding = static_cast<std::ptrdiff_t>(x->size() / 38 * (19 - kLength));
      EXPECT_TRUE(all_zero({x->end() - padding, x->end()})) << "rotary " << rotary;
    }
  }
}

// Queries so far before the first key that their window holds none.
TEST_P(Contract, AWindowWithoutTokensGivesZeros) {
  if (!has(Feature::window) || !has(Feature::cross) || !has(Feature::bidirectional)) return;
  Trial s = usual_trial(mechanism());
  s.n_k = 8;
  s.options.window = Window{3, 2};
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f64, 3);
  Tape tape(context_, {.record = false});
  const Tensor o = run(context_, tape, inputs, mechanism(), s).output.value();
  const std::int64_t blind = s.n_q - s.n_k - 2;
  EXPECT_TRUE(all_zero(o.slice(1, 0, blind).to_vector<double>()));
  EXPECT_FALSE(all_zero(o.slice(1, s.n_q - 1, s.n_q).to_vector<double>()));
  EXPECT_LT(relative_error(o.to_vector<double>(), expected(context_, inputs, mechanism(), s).o), 1e-12);
}

// Twelve heads have slopes that f32 rounds.
TEST_P(Contract, SlopesOfAlibiAreDoubleInDouble) {
  if (!has(Feature::alibi)) return;
  Trial s = usual_trial(mechanism());
  s.heads = 12;
  s.kv_heads = has(Feature::grouped) ? 6 : 12;
  s.options.alibi = true;
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f64, 3);
  Tape tape(context_, {.record = false});
  const std::vector<double> o = run(context_, tape, inputs, mechanism(), s).output.value().to_vector<double>();
  EXPECT_LT(relative_error(o, expected(context_, inputs, mechanism(), s).o), 1e-12);
}

TEST_P(Contract, ABiasThatIsNoNumberIsNamed) {
  if (!has(Feature::bias)) return;
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)})
    for (const bool diagonal : {false, true}) {
      Trial s = usual_trial(mechanism());
      const Shape shape = diagonal ? Shape{1, s.heads, 2 * s.n_k - 1} : Shape{1, s.heads, s.n_q, s.n_k};
      const Tensor bias = Tensor::zeros(context_, shape);
      (diagonal ? s.options.diagonal_bias : s.options.bias) = Var(bias);
      const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
      const auto output = [&] {
        Tape tape(context_, {.record = false});
        return run(context_, tape, inputs, mechanism(), s).output.value().to_vector<double>();
      };
      EXPECT_TRUE(all_finite(output()));
      if (context_.device() != Device::cpu) continue;  // it would have to be waited for: NaN must do
      (diagonal ? bias.slice(2, s.n_k - 1, s.n_k) : bias.slice(2, 4, 5).slice(3, 4, 5)).fill(bad);
      try {
        EXPECT_TRUE(all_finite(output())) << bad << " gave NaN without a word";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_NE(std::string(error.what()).find("bias holds NaN or +inf"), std::string::npos) << error.what();
      }
    }
}

TEST_P(Contract, StatesBelongToTheHeadsOfKAndV) {
  if (!has(Feature::state)) return;
  Trial s = usual_trial(mechanism());
  s.options.final_state = true;
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  Tape tape(context_, {.record = false});
  const Shape shape = run(context_, tape, inputs, mechanism(), s).final_state.shape();
  ASSERT_EQ(shape.rank(), 4);
  EXPECT_EQ(shape[0], s.batch);
  EXPECT_EQ(shape[1], s.kv_heads);
}

// The size that "2 clip + 1" or "heads d_k" stands for; none where it is rounded, or a parameter of 0 means another.
std::optional<std::int64_t> size_of_axis(const std::string& text, const Mechanism& mechanism, const LayerSizes& sizes) {
  std::istringstream words(text);
  std::string word;
  std::int64_t sum = 0, product = 1, sign = 1;
  while (words >> word) {
    if (word == "/") return std::nullopt;
    if (word == "+" || word == "-") {
      sum += sign * product;
      product = 1;
      sign = word == "+" ? 1 : -1;
      continue;
    }
    const std::pair<const char*, std::int64_t> known[] = {{"heads", sizes.heads}, {"kv_heads", sizes.kv_heads},
                                                          {"d_k", sizes.d_k},     {"d_v", sizes.d_v},
                                                          {"width", sizes.width}, {"max_length", sizes.max_length}};
    const auto* found = std::find_if(std::begin(known), std::end(known), [&](auto& k) { return word == k.first; });
    const bool number = word.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t factor = number                     ? std::stoll(word)
                                : found != std::end(known) ? found->second
                                                           : mechanism.integer(word);
    if (factor == 0) return std::nullopt;
    product *= factor;
  }
  return sum + sign * product;
}

TEST_P(Contract, WeightsAreExplained) {
  constexpr LayerSizes kSizes{.heads = 6, .kv_heads = 3, .d_k = 10, .d_v = 14, .width = 22, .max_length = 26};
  for (const WeightSpec& spec : mechanism().weights(kSizes)) {
    SCOPED_TRACE(spec.name);
    EXPECT_FALSE(spec.meaning.empty());
    std::istringstream axes{std::string(spec.axes)};
    std::string axis;
    int rank = 0;
    for (; std::getline(axes, axis, ','); ++rank) {
      ASSERT_LT(rank, spec.shape.rank());
      const std::optional<std::int64_t> size = size_of_axis(axis, mechanism(), kSizes);
      if (size) {
        EXPECT_EQ(spec.shape[rank], *size) << axis;
      }
    }
    EXPECT_EQ(rank, spec.shape.rank());
  }
}

FOVEA_LAWS(Contract);

}  // namespace
}  // namespace fovea::conformance
