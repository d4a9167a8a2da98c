// Outputs in f32, and gradients in f32 of them, on tensor cores: what layers normalise by themselves (retnet, gla).

#include "checks.h"

namespace fovea::scan::test {
namespace {

constexpr std::int64_t kManyRows = 1100;  // in segments

void check_decays(std::int64_t d, std::int64_t n) {
  auto number = static_cast<std::uint64_t>(d + n);
  for (int form = 0; form < 8; ++form) {
    const bool packed = form / 2 % 2 == 1;
    Case s = of_width(d, 2, rows_of(n, packed), form % 2 == 1, packed);
    ++number;
    s.map = static_cast<Map>(number % 4);
    if (form / 4 == 1) s.heads = 4;
    if (s.causal && form / 4 == 0) {
      s.decay = Decay::head;
      s.log_decay = {-0.02, -30.0};
    }
    choose_states(s, number);
    check_on_tensor_cores<float>(s, number, random_values(s, number, 0.1));
  }
}
TEST(WideScan, DecaysOfHeadsOnTensorCores) {
  for (const std::int64_t n : {1, 33, 70}) check_decays(32, n);
  check_decays(64, 33);
}
TEST(WideScan, DecaysOfHeadsAtLength) {
  for (const std::int64_t d : {32, 64, 128})
    for (const std::int64_t n : {std::int64_t{100}, kManyRows}) check_decays(d, n);
}

void check_gates(std::int64_t d, std::int64_t n) {
  auto number = static_cast<std::uint64_t>(d + n);
  for (int form = 0; form < 4; ++form) {
    const bool packed = form % 2 == 1;
    Case s = of_width(d, 2, rows_of(n, packed), true, packed);
    ++number;
    s.decay = form / 2 % 2 == 0 ? Decay::channel : Decay::step;
    s.map = static_cast<Map>(number % 4);
    choose_states(s, number);
    Values values = random_values(s, number, 0.1);
    for (double& g : values.log_decay) g *= 0.02;
    check_on_tensor_cores<float>(s, number, values);
  }
}
TEST(WideScan, GatesOnTensorCores) {
  for (const std::int64_t n : {1, 33, 70}) check_gates(32, n);
  check_gates(64, 33);
}
TEST(WideScan, GatesAtLength) {
  for (const std::int64_t d : {32, 64})
    for (const std::int64_t n : {std::int64_t{100}, kManyRows}) check_gates(d, n);
}

// With the norm over all heads, or a denominator; gradients come as near to double as the rest of a half leads them.
TEST(WideScan, NormalisersOnTensorCores) {
  for (int form = 0; form < 8; ++form) {
    Case s = of_width(form / 4 == 0 ? 64 : 32, 2, 150, form % 2 == 1, form / 4 == 1);
    s.map = Map::elu_plus_one;
    s.rms_norm = form / 2 % 2 == 0;
    if (!s.rms_norm) s.denominator = Denominator::add;
    s.eps = 0.1;
    Values values = random_values(s, 17, 0.1);
    check_on_tensor_cores<float>(s, 2, values);
    round_to<bf16>(values);
    const Results exact = run_engine<double>(make_context(4), s, values);
    const Results wide = run_card<bf16, float>(s, values, {.wide_outputs = true});
    const Results rest = run_card<bf16>(s, values, {.with_rest = true});
    SCOPED_TRACE(s.text());
    EXPECT_LT(distance(wide.o, exact.o), 4e-3);
    for (const Results& half : {wide, rest}) {
      EXPECT_LT(distance(half.dq, exact.dq), 8e-3);
      EXPECT_LT(distance(half.dk, exact.dk), 8e-3);
    }
  }
}

// Gradients as a norm of every head leaves them: at right angles to the output, so that dq cancels what values have in
// common. `o`: as forward gave it.
void turn_away(std::vector<double>& d_o, const std::vector<double>& o, std::size_t d) {
  for (std::size_t row = 0; row < o.size(); row += d) {
    double along = 0, square = 0;
    for (std::size_t c = row; c < row + d; ++c) along += d_o[c] * o[c], square += o[c] * o[c];
    for (std::size_t c = row; c < row + d; ++c) d_o[c] -= square > 0 ? o[c] * along / square : 0.0;
  }
}

// The portable kernels, which rows off their 16-byte pieces lead to, compute all of it in f32. On tensor cores
// gradients of logs are sums of roundings over the rows behind them.
void check_gradients_that_cancel(std::int64_t d, Decay decay, std::int64_t n) {
  Case s = single(n, n);
  s.d_k = s.d_v = d;
  s.causal = true;
  s.decay = decay;
  if (decay == Decay::head) s.log_decay = {-0.002, -0.03};
  s.map = Map::elu_plus_one;
  Values values = random_values(s, 13, 0.5);
  for (double& g : values.log_decay) g *= 0.005;
  round_to<bf16, float>(values);
  Ran ran{}, portable{};
  const Results before = run_card<bf16, float>(s, values, {.wide_outputs = true});
  turn_away(values.d_o, before.o, static_cast<std::size_t>(d));
  round_to<bf16, float>(values);
  const Results exact = run_engine<double>(make_context(4), s, values);
  const Results card = run_card<bf16, float>(s, values, {.wide_outputs = true, .ran = &ran});
  const Results plain = run_card<bf16, float>(s, values, {.gap = 3, .wide_outputs = true, .ran = &portable});
  SCOPED_TRACE(s.text());
  expect_tensor_cores(ran);
  EXPECT_EQ(portable.backward, cuda::Kernels::portable);
  EXPECT_LT(relative(card.o, exact.o), 4e-3);
  for (const auto member : {&Results::dq, &Results::dk, &Results::dv}) {
    EXPECT_LT(relative(card.*member, exact.*member), 6e-3);
    EXPECT_LT(relative(plain.*member, exact.*member), 6e-3);
  }
  if (!exact.d_log_decay.empty()) {
    EXPECT_LT(relative(card.d_log_decay, exact.d_log_decay), 4e-2);
  }
}
TEST(WideScan, GradientsThatCancelOnTensorCores) {
  check_gradients_that_cancel(32, Decay::head, 300);
  check_gradients_that_cancel(64, Decay::head, 300);
  check_gradients_that_cancel(32, Decay::step, 300);
  check_gradients_that_cancel(64, Decay::channel, 300);
}
TEST(WideScan, GradientsThatCancelAtLength) {
  for (const std::int64_t d : {32, 64, 128}) check_gradients_that_cancel(d, Decay::head, 3000);
  for (const std::int64_t d : {32, 64})
    for (const Decay decay : {Decay::step, Decay::channel}) check_gradients_that_cancel(d, decay, 3000);
}

// What f32 loses is nothing, which the portable kernels write.
TEST(WideScan, ARestIsThePortableKernels) {
  Case s = of_width(64, 2, 60, true, false);
  Ran ran{};
  check_case<bf16, float>(s, random_values(s, 3), {.wide_outputs = true, .with_rest = true, .ran = &ran});
  EXPECT_EQ(ran.forward, cuda::Kernels::portable);
}

}  // namespace
}  // namespace fovea::scan::test
