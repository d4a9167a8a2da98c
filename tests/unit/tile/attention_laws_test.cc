// Laws of the tiled engine: same bits at any thread count, tile independence, what is hidden does not matter, gradients
// by differences, bounded memory, refusals.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "attention_case.h"
#include "core/isa.h"
#include "fovea/error.h"
#include "support/tensors.h"

namespace fovea::tile::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Arrays run(
    Options options, int threads, const std::function<void(AttentionCase&)>& change = [](AttentionCase&) {}) {
  const Context context({.threads = threads, .memory = {.poison = true}});
  AttentionCase c(std::move(options));
  change(c);
  c.run_forward(context);
  c.run_backward(context);
  return c.arrays();
}

void expect_same_bits(const Arrays& a, const Arrays& b) {
  EXPECT_TRUE(fovea::testing::same_bits(a.o.values, b.o.values)) << "o";
  EXPECT_TRUE(fovea::testing::same_bits(a.dq.values, b.dq.values)) << "dq";
  EXPECT_TRUE(fovea::testing::same_bits(a.dk.values, b.dk.values)) << "dk";
  EXPECT_TRUE(fovea::testing::same_bits(a.dv.values, b.dv.values)) << "dv";
  EXPECT_TRUE(fovea::testing::same_bits(a.d_bias, b.d_bias)) << "d_bias";
}

TEST(AttentionLaws, SameBitsAtAnyThreadCount) {
  std::vector<Options> cases;
  cases.push_back(
      {.n_q = 150, .n_k = 150, .heads = 1, .kv_heads = 1, .pattern = Pattern::causal(), .dtype = DType::f32});
  cases.push_back({.batch = 3, .n_q = 90, .n_k = 90, .heads = 4, .kv_heads = 2, .dtype = DType::f32, .dropout = 0.1f});
  cases.push_back({.batch = 2, .n_q = 90, .n_k = 70, .dtype = DType::f32, .bias = Bias::per_head_broadcast});
  cases.push_back(
      {.n_q = 300, .n_k = 300, .heads = 8, .kv_heads = 8, .pattern = Pattern::window(20, 0), .dtype = DType::f32});
  cases.push_back({.batch = 9, .n_q = 64, .n_k = 64, .pattern = Pattern::block_diagonal(16), .dtype = DType::f32});
  cases.push_back({.batch = 2, .n_q = 60, .n_k = 60, .dtype = DType::f32, .bias = Bias::queries_only, .d_lse = true});
  cases.push_back(
      {.n_q = 150, .n_k = 150, .heads = 6, .dtype = DType::f32, .bias = Bias::queries_of_all_heads, .d_lse = true});
  cases.push_back({.n_q = 200, .n_k = 190, .heads = 1, .kv_heads = 1, .dtype = DType::f32, .dropout = 0.1f, .step = 3});
  cases.push_back({.batch = 2, .n_q = 60, .n_k = 60, .pattern = Pattern::block_diagonal(16), .dtype = DType::f32});
  cases.back().bias = Bias::one_per_head;
  cases.push_back({.n_q = 4500, .n_k = 40, .dtype = DType::f32, .bias = Bias::dense, .dropout = 0.1f, .d_lse = true});
  cases.push_back({.batch = 3, .n_q = 1100, .n_k = 33, .heads = 4, .dtype = DType::bf16});
  cases.push_back({.n_q = 40, .n_k = 500, .heads = 4, .pattern = Pattern::causal(), .dtype = DType::f32});
  for (const Options& options : cases) {
    const Arrays one = run(options, 1);
    for (int threads : {2, 3, 7}) expect_same_bits(run(options, threads), one);
  }
}

TEST(AttentionLaws, TileSizeDoesNotMatter) {
  for (const Pattern& pattern :
       {Pattern::full(), Pattern::causal(), Pattern::window(9, 4), Pattern::block_diagonal(12)}) {
    Options options{.n_q = 50, .n_k = 61, .heads = 4, .pattern = pattern, .bias = Bias::dense, .dropout = 0.2f};
    options.alibi = true;
    const Arrays want = run(options, 2);
    for (TileSize tile : {TileSize{1, 1}, {7, 5}, {16, 64}, {64, 16}, {128, 128}}) {
      options.tile = tile;
      const Arrays ours = run(options, 2);
      EXPECT_LT(difference(ours.o.values, want.o.values), 1e-13);
      EXPECT_LT(difference(ours.lse.values, want.lse.values), 1e-13);
      EXPECT_LT(difference(ours.dq.values, want.dq.values), 1e-13);
      EXPECT_LT(difference(ours.dk.values, want.dk.values), 1e-13);
      EXPECT_LT(difference(ours.dv.values, want.dv.values), 1e-13);
      EXPECT_LT(difference(ours.d_bias, want.d_bias), 1e-13);
    }
  }
}

// Rows outside the pieces hold NaN; the pieces' results are those of a batch without them.
TEST(AttentionLaws, PaddingMayHoldNaN) {
  for (Weight weight : kWeights)
    for (DType dtype : {DType::f32, DType::f64}) {
      Options options{.batch = 2, .n_q = 40, .n_k = 44, .pattern = Pattern::causal(), .weight = weight, .dtype = dtype};
      options.pieces = {{0, 0, 31, 0, 17, nullptr}, {1, 3, 20, 5, 30, nullptr}};
      const auto poison = [&](AttentionCase& c) {
        Arrays& a = c.arrays();
        for (std::int64_t b = 0; b < 2; ++b) {
          const Piece& p = c.options().pieces[static_cast<std::size_t>(b)];
          for (Field* f : {&a.q, &a.d_o})
            for (std::int64_t i = 0; i < 40; ++i)
              for (std::int64_t x = 0; (i < p.q0 || i >= p.q0 + p.nq) && x < 16; ++x) f->at(b, i, x / 8, x % 8) = kNaN;
          for (Field* f : {&a.k, &a.v})
            for (std::int64_t j = 0; j < 44; ++j)
              for (std::int64_t x = 0; (j < p.k0 || j >= p.k0 + p.nk) && x < 16; ++x) f->at(b, j, x / 8, x % 8) = kNaN;
        }
        for (Field* f : {&a.q, &a.k, &a.v, &a.d_o}) f->store();
      };
      expect_same_bits(run(options, 2, poison), run(options, 2));
    }
}

// Residue classes as pieces are the dilated pattern: same bias, same dropout, same distances.
TEST(AttentionLaws, StepsAreADilatedPattern) {
  for (std::int64_t step : {2, 3, 5, 16})
    for (Bias bias : {Bias::dense, Bias::per_head_broadcast, Bias::keys_only, Bias::queries_only, Bias::one_per_head}) {
      Options options{.batch = 2, .n_q = 41, .n_k = 57, .heads = 4, .bias = bias, .dropout = 0.2f, .d_lse = true};
      options.alibi = true;
      Options classes = options;
      classes.step = step;
      classes.pattern = Pattern::window(4, 2);
      options.pattern = Pattern::predicate("dilated", [=](std::int64_t q, std::int64_t k) {
        return (q - k) % step == 0 && (q - k) / step <= 4 && (k - q) / step <= 2;
      });
      for (Weight weight : kWeights) {
        classes.weight = options.weight = weight;
        classes.d_lse = options.d_lse = has_statistic(weight);
        const Arrays ours = run(classes, 2), want = run(options, 2);
        EXPECT_LT(difference(ours.o.values, want.o.values), 1e-13);
        EXPECT_LT(difference(ours.dq.values, want.dq.values), 1e-13);
        EXPECT_LT(difference(ours.dk.values, want.dk.values), 1e-13);
        EXPECT_LT(difference(ours.dv.values, want.dv.values), 1e-13);
        EXPECT_LT(difference(ours.d_bias, want.d_bias), 1e-13);
      }
    }
}

// Rows that a step passes over are neither read nor written.
TEST(AttentionLaws, RowsBetweenStepsMayHoldNaN) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    Options options{.n_q = 40, .n_k = 45, .pattern = Pattern::causal(), .dtype = dtype};
    options.pieces = {{0, 1, 13, 2, 11, nullptr, 3, 4}};
    const auto poison = [](AttentionCase& c) {
      const auto fill = [](Field& f, auto is_read) {
        for (std::int64_t i = 0; i < f.n; ++i)
          for (std::int64_t x = 0; !is_read(i) && x < 16; ++x) f.at(0, i, x / 8, x % 8) = kNaN;
        f.store();
      };
      for (Field* f : {&c.arrays().q, &c.arrays().d_o}) fill(*f, [](std::int64_t i) { return i % 3 == 1 && i < 40; });
      for (Field* f : {&c.arrays().k, &c.arrays().v}) fill(*f, [](std::int64_t j) { return j % 4 == 2 && j <= 42; });
    };
    expect_same_bits(run(options, 2, poison), run(options, 2));
  }
}

// A key that a mask hides from everybody, by pattern or by a bias of -infinity, may hold NaN and infinity.
TEST(AttentionLaws, HiddenKeysMayHoldNaN) {
  for (Weight weight : kWeights)
    for (bool by_bias : {false, true}) {
      Options options{.n_q = 30, .n_k = 30, .weight = weight};
      if (by_bias)
        options.bias = Bias::keys_only;
      else
        options.pattern = Pattern::predicate("not 11", [](std::int64_t, std::int64_t k) { return k != 11; });
      const auto hide = [&](AttentionCase& c) {
        if (by_bias) c.arrays().bias[11] = -std::numeric_limits<double>::infinity();
        c.store_bias();
      };
      const auto poison = [&](AttentionCase& c) {
        hide(c);
        for (std::int64_t x = 0; x < 16; ++x) {
          c.arrays().k.at(0, 11, x / 8, x % 8) = kNaN;
          c.arrays().v.at(0, 11, x / 8, x % 8) = x % 2 == 0 ? kNaN : std::numeric_limits<double>::infinity();
        }
        c.arrays().k.store();
        c.arrays().v.store();
      };
      const Arrays want = run(options, 2, hide), ours = run(options, 2, poison);
      EXPECT_LT(difference(ours.o.values, want.o.values), 1e-13);
      EXPECT_LT(difference(ours.dq.values, want.dq.values), 1e-13);
      EXPECT_LT(difference(ours.dk.values, want.dk.values), 1e-13);
      EXPECT_LT(difference(ours.dv.values, want.dv.values), 1e-13);
    }
}

// A future token may hold NaN without touching the rows before it.
TEST(AttentionLaws, NaNStaysInItsFuture) {
  Options options{.n_q = 40, .n_k = 40, .pattern = Pattern::causal(), .dtype = DType::f32};
  const Arrays want = run(options, 2),
               ours = run(options, 2, [](AttentionCase&c) {
                 for (std::int64_t x = 0; x < 16; ++x)
                   c.arrays().k.at(0, 21, x / 8, x % 8) = c.arrays().v.at(0, 21, x / 8, x % 8) = kNaN;
                 c.arrays().k.store();
                 c.arrays().v.store();
               });
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t c = 0; c < 8; ++c) {
      if (i < 21)
        EXPECT_NEAR(ours.o.at(0, i, 0, c), want.o.at(0, i, 0, c), 1e-6);
      else
        EXPECT_TRUE(std::isnan(ours.o.at(0, i, 0, c)));
    }
}

TEST(AttentionLaws, EmptyRowsGiveZeroAndMinusInfinity) {
  Options options{.n_q = 30, .n_k = 12, .pattern = Pattern::causal(), .d_lse = true};
  const Arrays a = run(options, 2, [](AttentionCase& c) {  // whatever comes back into such a row must not matter
    for (std::int64_t i = 0; i < 18; ++i)
      for (std::int64_t h = 0; h < 2; ++h)
        c.arrays().d_lse.at(0, i, h) = c.arrays().d_o.at(0, i, h, 3) = c.arrays().q.at(0, i, h, 1) = kNaN;
    for (Field* f : {&c.arrays().d_lse, &c.arrays().d_o, &c.arrays().q}) f->store();
  });
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < 18; ++i)
      for (std::int64_t c = 0; c < 8; ++c) {
        EXPECT_EQ(a.lse.at(0, i, h), -std::numeric_limits<double>::infinity());
        EXPECT_EQ(a.o.at(0, i, h, c), 0.0);
        EXPECT_EQ(a.dq.at(0, i, h, c), 0.0);
      }
  for (const Field* f : {&a.dk, &a.dv})
    for (double x : f->values) EXPECT_TRUE(std::isfinite(x));
}

TEST(AttentionLaws, BatchItemsDoNotTouchEachOther) {
  const Options options{.batch = 3, .n_q = 33, .n_k = 47, .pattern = Pattern::causal(), .dtype = DType::f32};
  const auto other = [](AttentionCase& c) {
    for (std::int64_t i = 0; i < 33; ++i) c.arrays().q.at(1, i, 0, 0) += 1.0;
    c.arrays().q.store();
  };
  const Arrays a = run(options, 2), b = run(options, 2, other);
  for (std::int64_t item : {0, 2})
    for (std::int64_t i = 0; i < 33; ++i) EXPECT_EQ(a.o.at(item, i, 0, 0), b.o.at(item, i, 0, 0));
}

// sum(o * d_o) + sum(lse * d_lse) as a function of everything, by central differences in double.
class Differences {
 public:
  explicit Differences(const Options& options) : case_(options) {
    case_.run_forward(context_);
    case_.run_backward(context_);
    gradients_ = case_.arrays();
    for (double x : gradients_.o.values) limit_ = std::max(limit_, 1e-7 * std::fabs(x));
  }

  void check(Field Arrays::*input, Field Arrays::*gradient) {
    Field& field = case_.arrays().*input;
    for (std::size_t i = 0; i < field.values.size(); i += 1 + field.values.size() / 40) {
      const double slope = difference_quotient(field.values[i], [&] { field.store(); });
      EXPECT_NEAR((gradients_.*gradient).values[i], slope, limit_) << "element " << i;
    }
  }
  void check_bias() {
    std::vector<double>& bias = case_.arrays().bias;
    for (std::size_t i = 0; i < bias.size(); i += 1 + bias.size() / 40) {
      const double slope = difference_quotient(bias[i], [&] { case_.store_bias(); });
      EXPECT_NEAR(gradients_.d_bias[i], slope, limit_) << "element " << i;
    }
  }

 private:
  double loss() {
    case_.run_forward(context_);
    const Arrays& a = case_.arrays();
    double sum = 0;
    for (std::size_t i = 0; i < a.o.values.size(); ++i) sum += a.o.values[i] * a.d_o.values[i];
    if (case_.options().d_lse)
      for (std::size_t i = 0; i < a.lse.values.size(); ++i)
        if (std::isfinite(a.lse.values[i])) sum += a.lse.values[i] * a.d_lse.values[i];
    return sum;
  }
  double difference_quotient(double& x, const std::function<void()>& store) {
    constexpr double kStep = 1e-5;
    const double before = x;
    const auto at = [&](double value) {
      x = value;
      store();
      return loss();
    };
    const double slope = (at(before + kStep) - at(before - kStep)) / (2 * kStep);
    x = before;
    store();
    return slope;
  }

  Context context_{{.threads = 1}};
  AttentionCase case_;
  Arrays gradients_;
  double limit_ = 1e-7;  // the rounding error of the loss over the step
};

TEST(AttentionLaws, GradientsAreDerivatives) {
  Options all{.batch = 2, .n_q = 21, .n_k = 26, .heads = 4, .kv_heads = 2, .d_k = 5, .d_v = 7};
  all.pattern = Pattern::causal();
  all.alibi = true;
  all.dropout = 0.2f;
  for (Weight weight : kWeights)
    for (Bias bias : {Bias::dense, Bias::per_head_broadcast, Bias::keys_only, Bias::queries_only}) {
      Options options = all;
      options.weight = weight;
      options.bias = bias;
      options.d_lse = has_statistic(weight);
      Differences differences(options);
      differences.check(&Arrays::q, &Arrays::dq);
      differences.check(&Arrays::k, &Arrays::dk);
      differences.check(&Arrays::v, &Arrays::dv);
      differences.check_bias();
    }
}

// Weights without a normaliser leave it to a column of ones in v: exp over its sum is softmax.
TEST(AttentionLaws, AColumnOfOnesSumsTheWeights) {
  Options options{.n_q = 30, .n_k = 37, .d_v = 8, .pattern = Pattern::causal(), .weight = Weight::exp};
  const auto ones = [](AttentionCase& c) {
    for (std::int64_t j = 0; j < 37; ++j) c.arrays().v.at(0, j, 0, 7) = c.arrays().v.at(0, j, 1, 7) = 1.0;
    c.arrays().v.store();
  };
  const Arrays ours = run(options, 2, ones);
  options.weight = Weight::softmax;
  const Arrays want = run(options, 2, ones);
  for (std::int64_t i = 0; i < 30; ++i)
    for (std::int64_t c = 0; c < 8; ++c)
      EXPECT_NEAR(ours.o.at(0, i, 1, c) / ours.o.at(0, i, 1, 7), want.o.at(0, i, 1, c), 1e-14);
}

// Scores far beyond the range of exp: the weight ends, and the sum of many is still a number.
TEST(AttentionLaws, ExpEndsInsteadOfOverflowing) {
  const Options options{.n_q = 20, .n_k = 40, .weight = Weight::exp, .dtype = DType::f32, .size = 40.0};
  const Arrays a = run(options, 2);
  for (const Field* f : {&a.o, &a.dq, &a.dk, &a.dv})
    for (double x : f->values) ASSERT_TRUE(std::isfinite(x));
}

// Where softmax is saturated its gradient is gone, the self-adjusting one is not.
TEST(AttentionLaws, SelfAdjustKeepsItsGradient) {
  Options options{.n_q = 1, .n_k = 3, .heads = 1, .kv_heads = 1, .d_k = 1, .d_v = 1};
  const auto saturate = [](AttentionCase& c) {
    Arrays& a = c.arrays();
    a.q.values = {1.0}, a.k.values = {20.0, 0.0, 0.0}, a.v.values = {1.0, 0.0, 0.0}, a.d_o.values = {1.0};
    for (Field* f : {&a.q, &a.k, &a.v, &a.d_o}) f->store();
  };
  EXPECT_LT(std::fabs(run(options, 1, saturate).dk.values[0]), 1e-7);
  options.weight = Weight::self_adjust;
  const Arrays a = run(options, 1, saturate);
  EXPECT_NEAR(a.o.values[0], 20.0, 1e-6);
  EXPECT_GT(std::fabs(a.dk.values[0]), 0.5);
}

TEST(AttentionLaws, DropoutKeepsTheRightShareAndTheMean) {
  Options options{.n_q = 64, .n_k = 256, .heads = 4, .kv_heads = 4, .d_v = 1, .dropout = 0.25f};
  const Arrays a = run(options, 2, [](AttentionCase& c) {
    std::fill(c.arrays().v.values.begin(), c.arrays().v.values.end(), 1.0);
    c.arrays().v.store();
  });
  double mean = 0;
  for (double x : a.o.values) mean += x / static_cast<double>(a.o.values.size());
  EXPECT_NEAR(mean, 1.0, 0.01);
}

TEST(AttentionLaws, ScratchStaysWithinItsBound) {
  const std::int64_t n = 8192;  // a bound that grows with n: checked at an eighth of the 65536 of the benchmark
  Options options{
      .n_q = n, .n_k = n, .heads = 1, .kv_heads = 1, .d_k = 64, .d_v = 64, .pattern = Pattern::window(64, 0)};
  options.tile = {64, 64};
  options.dtype = DType::f32;
  const Context context({.threads = 2});
  AttentionCase c(options);
  c.run_forward(context);
  c.run_backward(context);
  EXPECT_LE(context.allocator()->use(Lifetime::scratch).peak, std::size_t{200'000'000} / 8);
  EXPECT_EQ(context.allocator()->use(Lifetime::scratch).now, 0u);
}

TEST(AttentionLaws, RefusesWhatItCannotDo) {
  const Context context({.threads = 1});
  AttentionCase c(Options{});
  const auto refuses = [&](const std::function<void(Problem&)>& change) {
    Problem problem = c.problem();
    change(problem);
    const Forward io{c.arrays().q.in(), c.arrays().k.in(), c.arrays().v.in(), c.arrays().o.out(), {}};
    EXPECT_THROW(forward<Device::cpu>(context, problem, io), Error);
  };
  refuses([](Problem& p) { p.kv_heads = 3; });
  refuses([](Problem& p) { p.heads = 0; });
  refuses([](Problem& p) { p.d_k = 0; });
  refuses([](Problem& p) { p.d_v = -4; });
  refuses([](Problem& p) { p.dtype = DType::i32; });
  refuses([](Problem& p) { p.scale = kNaN; });
  refuses([](Problem& p) { p.offset = kNaN; });
  for (int degree : {-2, 0, 3, 5, 1 << 30})
    refuses([&](Problem& p) { p.weight = degree % 2 == 0 ? Weight::power : Weight::taylor, p.degree = degree; });
  refuses([](Problem& p) { p.dropout.p = 1.0f; });
  refuses([](Problem& p) { p.dropout.p = -0.1f; });
  const Plan other = compile_plan(Pattern::full(), 9, 9, {16, 16});
  const std::vector<Piece> wrong{{0, 0, 33, 0, 33, &other}}, none{{0, 0, 33, 0, 33, nullptr}};
  refuses([&](Problem& p) { p.pieces = wrong; });
  refuses([&](Problem& p) { p.pieces = none; });
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  const Plan* plan = c.problem().pieces[0].plan;
  const std::vector<Piece> strange{{0, 0, 33, 0, 33, plan, 0, 1},       {0, 0, 33, 0, 33, plan, 1, -3},
                                   {0, 0, 33, 0, 33, plan, kFar, 1},    {0, 0, 33, 0, 33, plan, 1, INT64_MAX},
                                   {0, kFar, 33, 0, 33, plan, 1, 1},    {0, 0, 33, INT64_MAX, 33, plan, 1, 1},
                                   {0, 0, 33, 0, 33, plan, 1, 1, kFar}, {0, 0, 33, 0, 33, plan, 1, 1, INT64_MIN}};
  for (const Piece& piece : strange) refuses([&](Problem& p) { p.pieces = std::span(&piece, 1); });
  EXPECT_THROW(forward<Device::cpu>(context, c.problem(), Forward{}), Error);
  EXPECT_THROW(backward<Device::cpu>(context, c.problem(), Backward{}), Error);
}

}  // namespace
}  // namespace fovea::tile::testing
