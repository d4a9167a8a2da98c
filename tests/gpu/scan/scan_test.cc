// The linear engine of the card against the one of the CPU in double: every form, random problems, the same bits twice.

#include <gtest/gtest.h>

#include <string>

#include "checks.h"
#include "fovea/error.h"
#include "support/names.h"

namespace fovea::scan::test {
namespace {

template <class T, std::size_t N>
T pick(Random& random, const T (&from)[N]) {
  return from[random.below(static_cast<std::uint32_t>(N))];
}

void choose_pieces(Random& random, Case& s) {
  constexpr std::int64_t kLengths[] = {1, 2, 15, 16, 33, 63, 64, 65, 100, 128, 200, 300};
  std::int64_t nq = pick(random, kLengths), nk = random.below(2) == 0 ? nq : pick(random, kLengths);
  s.batch = 1 + random.below(3);
  s.rows_q = nq;
  s.rows_k = nk;
  s.pieces.clear();
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::uint32_t kind = random.below(4);
    if (kind == 0 && nq > 8 && nk > 8) {  // packed, with a gap
      const std::int64_t a = nq / 3, c = nk / 2;
      s.pieces.push_back({b, 0, a, 0, c});
      s.pieces.push_back({b, a + 2, nq - a - 2, c + 1, nk - c - 1});
      s.pieces.push_back({b, a, 0, c, 0});
    } else if (kind == 1) {  // padded
      s.pieces.push_back({b, 0, (nq + 1) / 2, 0, nk / 2});
    } else {
      s.pieces.push_back({b, 0, nq, 0, nk});
    }
  }
}

// Any combination of what the contract has.
Case random_case(std::uint64_t seed) {
  Random random(seed, 3);
  constexpr std::int64_t kWidths[] = {1, 5, 8, 16, 24, 32, 64, 64, 64, 64, 65, 96, 128, 128, 130};
  Case s;
  s.kv_heads = 1 + random.below(3);
  s.heads = s.kv_heads * (1 + random.below(3));
  s.d_k = pick(random, kWidths);
  s.d_v = random.below(3) == 0 ? pick(random, kWidths) : s.d_k;
  choose_pieces(random, s);
  s.map = static_cast<Map>(random.below(4));
  s.causal = random.below(3) != 0;
  if (s.causal && random.below(2) == 0) s.decay = static_cast<Decay>(random.below(4));
  if (s.decay == Decay::head)
    for (std::int64_t g = 0; g < s.kv_heads; ++g) s.log_decay.push_back(g == 1 ? -30.0 : -0.02 * (g + 1));
  const bool positive = s.map == Map::elu_plus_one;
  const std::uint32_t normaliser = random.below(3);
  s.rms_norm = normaliser == 0;
  if (normaliser == 1 && positive) s.denominator = random.below(2) == 0 ? Denominator::add : Denominator::clamp;
  s.eps = s.denominator == Denominator::clamp ? 3.7 : 0.1;
  s.states = random.below(2) == 0;
  s.save_state = random.below(2) == 0;
  return s;
}

class RandomProblem : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  template <class T>
  void check() {
    const Case s = random_case(GetParam());
    CardOptions options;
    options.gap = GetParam() % 3 == 0 ? 3 : (GetParam() % 3 == 1 ? 8 : 0);
    check_case<T>(s, random_values(s, GetParam(), GetParam() % 2 == 0 ? 0.0 : 0.1), options);
  }
};
TEST_P(RandomProblem, F64) { check<double>(); }
TEST_P(RandomProblem, F32) { check<float>(); }
TEST_P(RandomProblem, Bf16) { check<bf16>(); }
TEST_P(RandomProblem, F16) { check<f16>(); }
INSTANTIATE_TEST_SUITE_P(All, RandomProblem, ::testing::Range<std::uint64_t>(0, 100));

TEST(CudaScan, EveryFormInDouble) {
  int number = 0;
  for (std::int64_t n : {1, 19, 130})
    for (const Case& setup : all_forms(n, n))
      if (n < 130 || number % 3 == 0)
        check_case<double>(setup, random_values(setup, static_cast<std::uint64_t>(++number)));
}

TEST(CudaScan, EveryFormInHalf) {
  int number = 0;
  for (Case setup : all_forms(150, 150)) {
    setup.d_k = setup.d_v = 64;
    check_case<bf16>(setup, random_values(setup, static_cast<std::uint64_t>(++number)));
  }
}

Case of_32(std::int64_t heads, std::int64_t n, bool causal, bool packed) {
  return of_width(32, heads, n, causal, packed);
}

// Heads of 32: two and eight have the norm in the pass that reads the states, seventeen after it.
TEST(CudaScan, HeadsOf32OnTensorCores) {
  std::uint64_t number = 0;
  int forward = 0, backward = 0;
  for (const std::int64_t heads : {2, 8, 17})
    for (const std::int64_t n : {16, 33, 64, 100, 300, 1100})
      for (int form = 0; form < 8; ++form) {
        Case s = of_32(heads, n, form % 2 == 1, form / 2 % 2 == 1);
        if (n == 1100 && heads == 17) continue;  // the CPU takes long
        ++number;
        s.map = static_cast<Map>(number % 4);
        s.rms_norm = form / 4 == 0 || !s.causal;
        if (s.causal && form / 4 == 1) {
          s.decay = Decay::head;
          for (std::int64_t g = 0; g < heads; ++g)
            s.log_decay.push_back(g == 1 ? -30.0 : -0.02 * static_cast<double>(g));
        }
        s.eps = 0.1;
        s.states = number % 3 != 0;
        s.save_state = number % 2 == 0;
        Ran ran{};
        check_case<bf16>(s, random_values(s, number, 0.1), {number % 2 == 0 ? 8 : 0, false, number % 3 == 1, &ran});
        expect_tensor_cores(ran);
        forward += ran.forward == cuda::Kernels::tensor_cores;
        backward += ran.backward == cuda::Kernels::tensor_cores;
      }
  std::printf("heads of 32 on tensor cores: %d forward, %d backward of %d\n", forward, backward,
              static_cast<int>(number));
}

constexpr std::int64_t kRowCounts[] = {1, 16, 33, 64, 100, 300}, kManyRows = 1100;  // the latter in segments

// The denominator is a column beside the values; its gradient cancels that of the values where they have a mean.
void check_denominators(std::int64_t d, std::int64_t n) {
  auto number = static_cast<std::uint64_t>(d + n);
  for (int form = 0; form < 8; ++form) {
    const bool packed = form / 2 % 2 == 1;
    Case s = of_width(d, 2, rows_of(n, packed), form % 2 == 1, packed);
    ++number;
    s.map = Map::elu_plus_one;
    s.denominator = form / 4 == 0 ? Denominator::add : Denominator::clamp;
    s.eps = form / 4 == 0 ? 0.1 : 3.7 * static_cast<double>(d);  // some rows are clamped
    if (s.causal && number % 3 == 0) {
      s.decay = Decay::head;
      s.log_decay = {-0.02, -30.0};
    }
    choose_states(s, number);
    check_on_tensor_cores(s, number, random_values(s, number, number % 4 == 0 ? 1.0 : 0.1));
  }
}
TEST(CudaScan, DenominatorsOnTensorCores) {
  for (const std::int64_t d : {32, 64, 128})
    for (const std::int64_t n : kRowCounts) check_denominators(d, n);
}
TEST(CudaScan, DenominatorsInSegments) {
  for (const std::int64_t d : {32, 64, 128}) check_denominators(d, kManyRows);
}

// Logs as drawn (down to -5, and a few of -60 and -1000), ones that reach far, and among these some that forget all.
void set_logs(Values& values, int kind) {
  for (std::size_t i = 0; i < values.log_decay.size(); ++i) {
    double& g = values.log_decay[i];
    if (kind > 0) g *= kind == 1 ? 0.02 : 0.002;
    if (kind == 1 && i % 97 == 0 && g <= 0) g = i % 2 == 0 ? -std::numeric_limits<double>::infinity() : -1000.0;
  }
}

void check_gates(std::int64_t d, std::int64_t n) {
  auto number = static_cast<std::uint64_t>(d + n);
  for (int form = 0; form < 12; ++form) {
    const bool packed = form % 2 == 1;
    Case s = of_width(d, 2, rows_of(n, packed), true, packed);
    ++number;
    s.decay = form / 2 % 2 == 0 ? Decay::channel : Decay::step;
    s.map = static_cast<Map>(number % 4);
    choose_states(s, number);
    Values values = random_values(s, number, 0.1);
    set_logs(values, form / 4);
    check_on_tensor_cores(s, number, values);
  }
}
TEST(CudaScan, DecaysOfStepsAndChannelsOnTensorCores) {
  for (const std::int64_t d : {32, 64})
    for (const std::int64_t n : kRowCounts) check_gates(d, n);
}
TEST(CudaScan, DecaysOfStepsAndChannelsInSegments) {
  for (const std::int64_t d : {32, 64}) check_gates(d, kManyRows);
}

// The gradient of the norm is a pair of bf16.
TEST(CudaScan, NormedDecaysOfStepsAndChannelsOnTensorCores) {
  for (const std::int64_t d : {32, 64})
    for (const Decay decay : {Decay::step, Decay::channel})
      for (const bool packed : {false, true}) {
        Case s = of_width(d, 2, 150, true, packed);
        s.decay = decay;
        s.rms_norm = true;
        check_on_tensor_cores(s, packed ? 4 : 3, random_values(s, 3, 0.1));
      }
}

// Query heads of a group share keys, values and states, and sum up their gradients.
void check_groups(std::int64_t d, std::int64_t n) {
  auto number = static_cast<std::uint64_t>(d + n);
  for (int form = 0; form < 8; ++form) {
    Case s = of_width(d, 2, n, form % 2 == 1, form / 2 % 2 == 1);
    ++number;
    s.heads = number % 2 == 0 ? 4 : 6;
    s.map = Map::elu_plus_one;
    s.rms_norm = form / 4 == 0;
    s.denominator = s.rms_norm ? Denominator::none : Denominator::add;
    s.eps = 0.1;
    choose_states(s, number);
    check_on_tensor_cores(s, number, random_values(s, number, 0.1));
  }
}
TEST(CudaScan, GroupedHeadsOnTensorCores) {
  for (const std::int64_t d : {32, 64, 128})
    for (const std::int64_t n : {33, 150}) check_groups(d, n);
}
TEST(CudaScan, GroupedHeadsInSegments) {
  for (const std::int64_t d : {32, 64, 128}) check_groups(d, kManyRows);
}

// What the kernels do not take goes to the portable ones: grouped heads backward under a gate, other widths, rows off
// their pieces.
TEST(CudaScan, HeadsOf32FallBack) {
  Case grouped = of_32(2, 100, true, true), narrow = of_32(2, 100, false, true), shifted = narrow;
  grouped.heads = 4;
  grouped.decay = Decay::channel;
  narrow.d_v = 24;
  const auto ran_of = [](const Case& s, std::int64_t gap) {
    Ran ran{};
    check_case<bf16>(s, random_values(s, 21), {gap, false, false, &ran});
    return ran;
  };
  EXPECT_EQ(ran_of(grouped, 0).forward, cuda::Kernels::tensor_cores);
  EXPECT_EQ(ran_of(grouped, 0).backward, cuda::Kernels::portable);
  EXPECT_EQ(ran_of(narrow, 0).forward, cuda::Kernels::portable);
  EXPECT_EQ(ran_of(shifted, 3).forward, cuda::Kernels::portable);
}

TEST(CudaScan, UnequalLengthsAlignAtTheEnd) {
  const std::int64_t lengths[][2] = {{3, 9}, {9, 3}, {1, 40}, {40, 1}, {5, 0}, {0, 5}, {33, 70}, {170, 83}};
  for (const auto& [nq, nk] : lengths)
    for (const Case& setup : all_forms(nq, nk)) check_case<double>(setup, random_values(setup, 5));
}

TEST(CudaScan, PiecesAreIndependentAndPaddingDoesNotLeak) {
  for (Case setup : all_forms(1, 1)) {
    setup.batch = 2;
    setup.rows_q = 50;
    setup.rows_k = 60;
    setup.pieces = {{0, 0, 20, 3, 20}, {0, 25, 0, 25, 7}, {0, 30, 11, 40, 17}, {1, 2, 45, 1, 33}, {1, 48, 2, 50, 0}};
    check_case<float>(setup, random_values(setup, 6));
  }
}

TEST(CudaScan, LongSequencesInSegments) {
  for (int form = 0; form < 7; ++form) {
    Case setup = single(3000, 2900);
    setup.heads = setup.kv_heads = 2;
    setup.d_k = setup.d_v = 64;
    setup.causal = form > 0;
    setup.map = Map::elu_plus_one;
    if (form > 1 && form < 5) setup.decay = static_cast<Decay>(form - 1);
    if (setup.decay == Decay::head) setup.log_decay = {-0.002, -0.5};
    setup.rms_norm = form % 2 == 0;
    if (form == 5) setup.denominator = Denominator::add;
    setup.states = form % 3 != 0;
    Values values = random_values(setup, 10, 0.1);
    for (double& g : values.log_decay) g *= 0.002;  // or nothing would reach the next segment
    check_case<float>(setup, values);
    check_case<bf16>(setup, values);
  }
}

// The gradient of q cancels when v has a mean: the state and the gradient of y must keep more than their dtype does.
TEST(CudaScan, HalfPrecisionKeepsTheGradientOfQ) {
  for (const std::int64_t d : {32, 64, 128})
    for (bool causal : {false, true}) {
      Case setup = single(4096, 4096);
      setup.d_k = setup.d_v = d;
      setup.causal = causal;
      setup.map = Map::elu_plus_one;
      setup.rms_norm = true;
      setup.eps = 1e-6;
      setup.states = setup.save_state = true;
      Values values = random_values(setup, 13, 0.1);
      for (double& x : values.initial) x = 0;
      for (double& x : values.d_final) x = 0;
      round_to<bf16>(values);
      const Results exact = run_engine<double>(make_context(8), setup, values);
      Ran ran{};
      const Results half = run_card<bf16>(setup, values, {.ran = &ran});
      SCOPED_TRACE(setup.text());
      expect_tensor_cores(ran);
      EXPECT_LT(relative(half.o, exact.o), 4e-3);
      EXPECT_LT(relative(half.dq, exact.dq), 6e-3);
      EXPECT_LT(relative(half.dk, exact.dk), 6e-3);
      EXPECT_LT(relative(half.dv, exact.dv), 6e-3);
      std::printf("d %d causal %d: o %.2e dq %.2e dk %.2e dv %.2e\n", static_cast<int>(d), causal,
                  relative(half.o, exact.o), relative(half.dq, exact.dq), relative(half.dk, exact.dk),
                  relative(half.dv, exact.dv));
    }
}

// The same of a denominator, whose gradient stands against that of the values.
TEST(CudaScan, HalfPrecisionKeepsTheGradientUnderADenominator) {
  for (const std::int64_t d : {32, 64, 128})
    for (bool causal : {false, true}) {
      Case setup = single(2048, 2048);
      setup.d_k = setup.d_v = d;
      setup.causal = causal;
      setup.map = Map::elu_plus_one;
      setup.denominator = Denominator::add;
      setup.eps = 1e-6;
      Values values = random_values(setup, 13, 0.5);
      round_to<bf16>(values);
      const Results exact = run_engine<double>(make_context(8), setup, values);
      Ran ran{};
      const Results half = run_card<bf16>(setup, values, {.with_rest = true, .ran = &ran});
      SCOPED_TRACE(setup.text());
      expect_tensor_cores(ran);
      EXPECT_LT(relative(half.o, exact.o), 4e-3);
      EXPECT_LT(relative(half.dq, exact.dq), 6e-3);
      EXPECT_LT(relative(half.dk, exact.dk), 6e-3);
      EXPECT_LT(relative(half.dv, exact.dv), 6e-3);
      std::printf("d %d causal %d: o %.2e dq %.2e dk %.2e dv %.2e\n", static_cast<int>(d), causal,
                  relative(half.o, exact.o), relative(half.dq, exact.dq), relative(half.dk, exact.dk),
                  relative(half.dv, exact.dv));
    }
}

TEST(CudaScan, TheFutureDoesNotLeak) {
  for (const Decay decay : {Decay::none, Decay::head, Decay::step, Decay::channel}) {
    Case setup = single(170, 170);
    setup.causal = true;
    setup.decay = decay;
    setup.heads = setup.kv_heads = 1;
    if (decay == Decay::head) setup.log_decay = {-0.01};
    setup.d_k = setup.d_v = 64;
    Values values = random_values(setup, 15);
    const Results before = run_card<bf16>(setup, values);
    for (std::size_t e = 71 * 64; e < values.k.size(); ++e) values.k[e] = std::numeric_limits<double>::infinity();
    const Results after = run_card<bf16>(setup, values);
    for (std::size_t e = 0; e < 71 * 64; ++e) ASSERT_EQ(before.o[e], after.o[e]) << e;
  }
}

TEST(CudaScan, StepsInPlaceEqualTheWhole) {
  for (const Case& form : all_forms(23, 23)) {
    if (!form.causal || !form.states) continue;
    const Values values = random_values(form, 12);
    const Results expected = run_engine<double>(make_context(), form, values);
    fovea::testing::Mirror mirror;
    Problem problem = form.problem(DType::f64);
    const std::int64_t decays = decay_columns(problem);
    CardArray<double> q(mirror, values.q, 23, form.heads, form.d_k, 0),
        k(mirror, values.k, 23, form.kv_heads, form.d_k, 0);
    CardArray<double> v(mirror, values.v, 23, form.kv_heads, form.d_v, 0);
    CardArray<double> g(mirror, values.log_decay, 23, form.kv_heads, decays, 0);
    CardArray<double> o(mirror, std::vector<double>(expected.o.size()), 23, form.heads, form.d_v, 0);
    CardArray<double> state(mirror, values.initial, 1, 1, 1, 0);
    for (std::int64_t t = 0; t < 23; ++t) {
      const Piece piece{0, t, 1, t, 1};
      problem.pieces = {&piece, 1};
      cuda::forward(
          {}, problem,
          {q.view<In>(), k.view<In>(), v.view<In>(), g.view<In>(), o.view<Out>(), {}, state.data(), state.data()});
    }
    mirror.finish();
    EXPECT_LT(distance(o.values(), expected.o), 1e-12) << form.text();
    EXPECT_LT(distance(state.values(), expected.final), 1e-12) << form.text();
  }
}

TEST(CudaScan, RefusesWhatItCannotDo) {
  Case setup = single(4, 4);
  setup.heads = 3;
  try {
    run_card<float>(setup, random_values(setup, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::shape);
  }
}

}  // namespace
}  // namespace fovea::scan::test
