// What sequence parallelism asks of the engine: the states alone, and what a segment does to any state before it.

#include <gtest/gtest.h>

#include "scan/launch.h"
#include "support/tensors.h"

namespace fovea::scan {
namespace {

using fovea::testing::random;
using fovea::testing::relative_error;

struct Form {
  const char* name;
  bool causal;
  Decay decay = Decay::none;
  Denominator denominator = Denominator::none;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class SegmentStates : public ::testing::TestWithParam<Form> {
 protected:
  static constexpr std::int64_t kRows = 1300, kHeads = 3, kKeyWidth = 5, kWidth = 7;  // in several cuts of the engine

  // What a segment makes of a state.
  struct Passed {
    Tensor state, decay;
  };
  Passed pass(std::int64_t begin, std::int64_t end, const Tensor& initial) const {
    const Piece piece{.k0 = begin, .nk = end - begin};
    const std::vector<double> rates{-0.001, -0.02, 0.0};
    Problem p;
    p.dtype = DType::f64;
    p.heads = 2 * kHeads;
    p.kv_heads = kHeads;
    p.d_k = kKeyWidth;
    p.d_v = kWidth;
    p.pieces = {&piece, 1};
    p.causal = GetParam().causal;
    p.decay = GetParam().decay;
    if (p.decay == Decay::head) p.log_decay = rates.data();
    p.denominator = GetParam().denominator;
    const Passed out{Tensor::empty(context_, {1, kHeads, kKeyWidth, state_width(p)}, DType::f64),
                     Tensor::empty(context_, {1, kHeads, kKeyWidth}, DType::f64)};
    const Tensor decay = decay_columns(p) == 0 ? Tensor() : log_decay_.slice(3, 0, decay_columns(p));
    forward(context_, p, {{{}, k_, v_, decay, initial}, {}, {}, {}, out.state, out.decay});
    return out;
  }
  // decay state + more, row by row of the state
  Tensor after(const Passed& segment, const Tensor& state) const {
    std::vector<double> sum = segment.state.to_vector<double>();
    const std::vector<double> decay = segment.decay.to_vector<double>(), before = state.to_vector<double>();
    const std::size_t width = sum.size() / decay.size();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += decay[i / width] * before[i];
    return Tensor::from<double>(context_, state.shape(), sum);
  }

  Context context_ = fovea::testing::poisoned();
  Tensor k_ = random(context_, {1, kRows, kHeads, kKeyWidth}, 1), v_ = random(context_, {1, kRows, kHeads, kWidth}, 2);
  Tensor log_decay_ = [this] {
    std::vector<double> values =
        random(context_, {1, kRows, kHeads, kKeyWidth}, 3, DType::f64, 0.01).to_vector<double>();
    for (double& g : values) g = -std::abs(g);
    return Tensor::from<double>(context_, {1, kRows, kHeads, kKeyWidth}, values);
  }();
};

TEST_P(SegmentStates, ComposeToThoseOfTheWhole) {
  const Passed whole = pass(0, kRows, {});
  Passed sum = pass(0, 40, {});
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{{40, 41}, {41, 41}, {41, 1300}}) {
    const Passed next = pass(begin, end, {});
    std::vector<double> decay = next.decay.to_vector<double>(), before = sum.decay.to_vector<double>();
    for (std::size_t i = 0; i < decay.size(); ++i) decay[i] *= before[i];
    sum = {after(next, sum.state), Tensor::from<double>(context_, sum.decay.shape(), decay)};
  }
  EXPECT_LT(relative_error(sum.state, whole.state), 1e-12);
  EXPECT_LT(relative_error(sum.decay, whole.decay), 1e-12);
  const bool decays = GetParam().decay != Decay::none;
  for (const double factor : whole.decay.to_vector<double>()) EXPECT_TRUE(decays ? factor <= 1.0 : factor == 1.0);
}

TEST_P(SegmentStates, TellWhatASegmentDoesToAnyState) {
  const Passed from_zero = pass(100, 900, {});
  const Tensor state = random(context_, from_zero.state.shape(), 4);
  EXPECT_LT(relative_error(after(from_zero, state), pass(100, 900, state).state), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Forms, SegmentStates,
                         ::testing::Values(Form{"bidirectional", false}, Form{"causal", true},
                                           Form{"head", true, Decay::head}, Form{"step", true, Decay::step},
                                           Form{"channel", true, Decay::channel},
                                           Form{"channel_denominator", true, Decay::channel, Denominator::add}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::scan
