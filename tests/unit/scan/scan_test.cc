#include <gtest/gtest.h>

#include <algorithm>

#include "core/isa.h"
#include "support/names.h"
#include "unit/scan/harness.h"

namespace fovea::scan::test {
namespace {

// A random direction on the entries that are numbers.
std::vector<double> direction(const std::vector<double>& x, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = std::isnan(x[i]) ? 0.0 : random.normal();
  return out;
}

// Slope of the definition's loss along a direction against the engine's gradient.
void expect_slope(const Case& setup, Values values, std::vector<double> Values::*input,
                  const std::vector<double>& gradient) {
  const std::vector<double> step = direction(values.*input, 77);
  const std::vector<double> at = values.*input;
  const double h = 2e-6;
  double losses[2];
  for (int side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < at.size(); ++i) (values.*input)[i] = at[i] + (side == 0 ? h : -h) * step[i];
    losses[side] = loss(setup, values);
  }
  double predicted = 0, scale = 1e-12;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (std::isnan(at[i])) continue;
    predicted += gradient[i] * step[i];
    scale += std::abs(gradient[i] * step[i]);
  }
  EXPECT_NEAR((losses[0] - losses[1]) / (2 * h), predicted, 1e-6 * scale + 1e-7) << setup.text();
}

void expect_double_is_right(const Context& context, const Case& setup, const Values& values) {
  const Results engine = run_engine<double>(context, setup, values);
  const Results plain = run_definition(setup, values);
  EXPECT_LT(distance(engine.o, plain.o), 1e-12) << setup.text();
  EXPECT_LT(distance(engine.final, plain.final), 1e-12) << setup.text();
  expect_slope(setup, values, &Values::q, engine.dq);
  expect_slope(setup, values, &Values::k, engine.dk);
  expect_slope(setup, values, &Values::v, engine.dv);
  if (setup.states) expect_slope(setup, values, &Values::initial, engine.d_initial);
  if (!values.log_decay.empty()) expect_slope(setup, values, &Values::log_decay, engine.d_log_decay);
}

class OnEveryIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { force_isa(GetParam()); }
  void TearDown() override { force_isa(available_isas().back()); }
};
INSTANTIATE_TEST_SUITE_P(Scan, OnEveryIsa, testing::ValuesIn(available_isas()), kNamedAsPrinted);

TEST_P(OnEveryIsa, AllFormsMatchTheDefinitionAndItsSlopes) {
  const Context context = make_context();
  int number = 0;
  for (std::int64_t n : {1, 2, 7, 19, 33, 64, 65, 130})
    for (Case setup : all_forms(n, n)) {
      const std::int64_t chunks[] = {0, 1, 3, n, n + 5};
      setup.chunk = chunks[number++ % 5];
      if (n >= 64 && number % 4 != 0) continue;  // the definition takes n^2 steps
      expect_double_is_right(context, setup, random_values(setup, static_cast<std::uint64_t>(number)));
    }
}

TEST_P(OnEveryIsa, FloatIsCloseToDouble) {
  const Context context = make_context();
  int number = 0;
  for (std::int64_t n : {1, 19, 64, 130})
    for (Case setup : all_forms(n, n)) {
      setup.d_k = 33;
      setup.d_v = 16;
      const Values values = random_values(setup, static_cast<std::uint64_t>(++number));
      Results exact = run_engine<double>(context, setup, values), found = run_engine<float>(context, setup, values);
      // The gradient of the decay is what is left of sums many times larger: nothing at all in a single row.
      EXPECT_LT(distance(found.d_log_decay, exact.d_log_decay), 2e-3) << setup.text();
      found.d_log_decay = exact.d_log_decay;
      EXPECT_LT(worst(found, exact), 2e-4) << setup.text();
    }
}

TEST(Scan, UnequalLengthsAlignAtTheEnd) {
  const Context context = make_context();
  const std::int64_t lengths[][2] = {{3, 9}, {9, 3}, {1, 40}, {40, 1}, {5, 0}, {0, 5}, {33, 70}, {70, 33}};
  for (const auto& [nq, nk] : lengths)
    for (const Case& setup : all_forms(nq, nk)) expect_double_is_right(context, setup, random_values(setup, 5));
}

TEST(Scan, PiecesAreIndependentAndPaddingDoesNotLeak) {
  const Context context = make_context();
  for (Case setup : all_forms(1, 1)) {
    setup.batch = 2;
    setup.rows_q = 50;
    setup.rows_k = 60;
    setup.pieces = {{0, 0, 20, 3, 20}, {0, 25, 0, 25, 7}, {0, 30, 11, 40, 17}, {1, 2, 45, 1, 33}, {1, 48, 2, 50, 0}};
    expect_double_is_right(context, setup, random_values(setup, 6));
  }
}

// So many states that they do not fit into one wave; each piece must come out as if it were alone.
TEST(Scan, ManyPiecesRunInWaves) {
  const Context context = make_context();
  for (bool causal : {false, true}) {
    Case all = single(400, 400);
    all.causal = causal;
    all.d_k = all.d_v = 192;
    all.heads = all.kv_heads = 4;
    all.pieces.clear();
    for (std::int64_t p = 0; p < 200; ++p) all.pieces.push_back({0, 2 * p, 2, 2 * p, 2});
    const Values values = random_values(all, 8);
    const Results together = run_engine<float>(context, all, values);
    for (std::size_t p : {0, 99, 113, 114, 199}) {
      Case one = all;
      one.pieces = {all.pieces[p]};
      const Results alone = run_engine<float>(context, one, values);
      const std::size_t begin = 2 * p * 4 * 192;
      for (auto member : {&Results::o, &Results::dq, &Results::dk, &Results::dv})
        for (std::size_t e = begin; e < begin + 2 * 4 * 192; ++e)
          ASSERT_EQ((together.*member)[e], (alone.*member)[e]) << p;
    }
  }
}

template <class T>
void expect_same_bits(const Case& setup) {
  const Values values = random_values(setup, 9);
  const Results one = run_engine<T>(make_context(1), setup, values);
  for (int threads : {2, 5}) {
    const Results many = run_engine<T>(make_context(threads), setup, values);
    for (auto member : kEveryResult) EXPECT_EQ(one.*member, many.*member) << setup.text() << " threads " << threads;
  }
}

TEST(Scan, SameBitsAtAnyNumberOfThreads) {
  struct Shape {
    std::int64_t n, heads, kv_heads;
  };
  for (const Shape& shape : {Shape{1700, 1, 1}, Shape{600, 8, 8}, Shape{600, 6, 3}})
    for (bool causal : {false, true})
      for (int normaliser = 0; normaliser < 4; ++normaliser) {
        Case setup = single(shape.n, shape.n - 50);
        setup.heads = shape.heads;
        setup.kv_heads = shape.kv_heads;
        setup.d_k = 16;
        setup.d_v = 9;
        setup.causal = causal;
        setup.map = Map::elu_plus_one;
        setup.rms_norm = normaliser == 1;
        setup.denominator = normaliser == 2 ? Denominator::add : Denominator::none;
        if (causal && normaliser > 1) setup.decay = static_cast<Decay>(normaliser);
        setup.states = true;
        expect_same_bits<float>(setup);
        if (setup.rms_norm) expect_same_bits<bf16>(setup);
      }
}

TEST(Scan, SegmentsAgreeWithOneRun) {
  // Long enough for several segments; the last head decays within a row, the first hardly.
  const Context context = make_context();
  for (int form = 0; form < 5; ++form) {
    const int normaliser = form % 3;
    Case setup = single(1100, 1060);
    setup.heads = 2;
    setup.d_k = 3;
    setup.d_v = 2;
    setup.causal = true;
    setup.map = Map::relu;
    setup.decay = form < 3 ? Decay::head : static_cast<Decay>(form - 1);
    if (setup.decay == Decay::head) setup.log_decay = {-0.002, -60.0};
    setup.rms_norm = normaliser == 1;
    setup.denominator = normaliser == 2 ? Denominator::clamp : Denominator::none;
    setup.states = true;
    Values values = random_values(setup, 10);
    for (double& g : values.log_decay) g *= 0.002;  // or nothing would reach the next segment
    expect_double_is_right(context, setup, values);
  }
}

// One run against two that hand the state over.
TEST(Scan, StateCarriesOver) {
  const Context context = make_context();
  for (std::int64_t cut : {1, 13, 40, 69})
    for (Decay decay : {Decay::head, Decay::step, Decay::channel}) {
      Case whole = single(70, 70);
      whole.causal = true;
      whole.map = Map::elu_plus_one;
      whole.decay = decay;
      if (decay == Decay::head) whole.log_decay = {-0.05, -0.5};
      whole.rms_norm = cut % 2 == 0;
      whole.states = true;
      const Values values = random_values(whole, 11);
      const Results expected = run_engine<double>(context, whole, values);
      const auto part = [&](std::int64_t begin, std::int64_t end, const std::vector<double>& initial) {
        Case s = whole;
        s.pieces = {{0, begin, end - begin, begin, end - begin}};
        Values x = values;
        x.initial = initial;
        return run_engine<double>(context, s, x);
      };
      const Results left = part(0, cut, values.initial), right = part(cut, 70, left.final);
      std::vector<double> o = left.o;
      for (std::size_t i = 0; i < o.size(); ++i) o[i] = std::isnan(o[i]) ? right.o[i] : o[i];
      EXPECT_LT(distance(o, expected.o), 1e-12);
      EXPECT_LT(distance(right.final, expected.final), 1e-12);
    }
}

TEST(Scan, StepFormEqualsTheParallelForm) {
  const Context context = make_context();
  for (const Case& form : all_forms(23, 23)) {
    if (!form.causal || !form.states) continue;
    const Values values = random_values(form, 12);
    const Results expected = run_engine<double>(context, form, values);
    Values x = values;
    std::vector<double> o(expected.o.size());
    const std::size_t row = o.size() / 23;
    for (std::int64_t t = 0; t < 23; ++t) {
      Case s = form;
      s.pieces = {{0, t, 1, t, 1}};
      const Results step = run_engine<double>(context, s, x);
      std::copy_n(step.o.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(t) * row), row,
                  o.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(t) * row));
      x.initial = step.final;
    }
    EXPECT_LT(distance(o, expected.o), 1e-12) << form.text();
    EXPECT_LT(distance(x.initial, expected.final), 1e-12) << form.text();
  }
}

// The gradient of q cancels when v has a mean; the state and the gradient of y stay in f32, which keeps it.
TEST(Scan, HalfPrecisionKeepsTheGradientOfQ) {
  const Context context = make_context();
  for (bool causal : {false, true}) {
    Case setup = single(2048, 2048);
    setup.d_k = setup.d_v = 64;
    setup.causal = causal;
    setup.map = Map::elu_plus_one;
    setup.rms_norm = true;
    setup.eps = 1e-6;
    const auto round = [](std::vector<double>& x) {
      for (double& e : x) e = static_cast<double>(static_cast<float>(bf16(static_cast<float>(e))));
    };
    Values values = random_values(setup, 13, 0.1);
    for (auto* x : {&values.q, &values.k, &values.v, &values.d_o}) round(*x);
    const Results exact = run_engine<double>(context, setup, values);
    const Results half = run_engine<bf16>(context, setup, values);
    const auto relative = [](const std::vector<double>& a, const std::vector<double>& b) {
      double error = 0, size = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
      }
      return std::sqrt(error / size);
    };
    EXPECT_LT(relative(half.o, exact.o), 4e-3);
    EXPECT_LT(relative(half.dq, exact.dq), 2e-2);
    EXPECT_LT(relative(half.dk, exact.dk), 1e-2);
    EXPECT_LT(relative(half.dv, exact.dv), 1e-2);
  }
}

TEST(Scan, F16WorksToItsPrecision) {
  const Context context = make_context();
  for (const Case& setup : all_forms(40, 40)) {
    if (setup.denominator == Denominator::clamp || setup.map == Map::identity) continue;
    Values values = random_values(setup, 14);
    EXPECT_LT(distance(run_engine<f16>(context, setup, values).o, run_definition(setup, values).o), 1e-2)
        << setup.text();
  }
}

TEST(Scan, TheFutureDoesNotLeak) {
  const Context context = make_context();
  for (Decay decay : {Decay::none, Decay::step, Decay::channel}) {
    Case setup = single(70, 70);
    setup.causal = true;
    setup.decay = decay;
    setup.heads = setup.kv_heads = 1;
    Values values = random_values(setup, 15);
    const Results before = run_engine<float>(context, setup, values);
    for (std::size_t e = 41 * 5; e < values.k.size(); ++e) values.k[e] = std::numeric_limits<double>::infinity();
    const Results after = run_engine<float>(context, setup, values);
    for (std::size_t e = 0; e < 41 * 7; ++e) EXPECT_EQ(before.o[e], after.o[e]);
  }
}

TEST(Scan, RefusesWhatItCannotDo) {
  const Context context = make_context();
  const auto code_of = [&](const Case& setup) {
    try {
      run_engine<float>(context, setup, random_values(setup, 1));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  Case setup = single(4, 4);
  setup.heads = 3;
  EXPECT_EQ(code_of(setup), ErrorCode::shape);
  setup = single(4, 4);
  setup.decay = Decay::head;
  EXPECT_EQ(code_of(setup), ErrorCode::usage);
  setup.log_decay = {-1.0, -1.0};
  EXPECT_EQ(code_of(setup), ErrorCode::unsupported);
  setup.causal = true;
  setup.log_decay = {-1.0, 0.5};
  EXPECT_EQ(code_of(setup), ErrorCode::usage);
  setup = single(4, 4);
  setup.rms_norm = true;
  setup.denominator = Denominator::add;
  EXPECT_EQ(code_of(setup), ErrorCode::unsupported);
}

}  // namespace
}  // namespace fovea::scan::test
