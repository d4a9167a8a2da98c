// Laws of the row rules: what the weights of a row must satisfy, and what the engine promises besides.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "core/guard.h"
#include "core/isa.h"
#include "fovea/error.h"
#include "rule_case.h"
#include "support/tensors.h"

namespace fovea::tile::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Row = std::vector<double>;

// A problem of one row whose scores are given and whose values are unit vectors: o is the row of weights. -infinity
// comes as a bias.
RuleCase row_case(const Row& scores, const RowRule& rule, DType dtype) {
  const auto n = static_cast<std::int64_t>(scores.size());
  Options options{.n_q = 1, .n_k = n, .heads = 1, .kv_heads = 1, .d_k = 1, .d_v = n};
  options.dtype = dtype;
  options.bias = Bias::keys_only;
  RuleCase c(options, rule);
  c.arrays().q.values[0] = 1.0;
  for (std::int64_t j = 0; j < n; ++j) {
    const double score = scores[static_cast<std::size_t>(j)];
    c.arrays().k.at(0, j, 0) = std::isinf(score) ? 0.0 : score;
    c.arrays().bias[static_cast<std::size_t>(j)] = std::isinf(score) ? score : 0.0;
    for (std::int64_t i = 0; i < n; ++i) c.arrays().v.at(0, j, 0, i) = i == j ? 1.0 : 0.0;
  }
  c.store();
  return c;
}
Row weights(const Row& scores, const RowRule& rule, DType dtype = DType::f64) {
  RuleCase c = row_case(scores, rule, dtype);
  c.run_forward(Context({.threads = 1, .memory = {.poison = true}}));
  return c.arrays().o.values;
}
// Gradient of <g, weights> by the scores.
Row vjp(const Row& scores, const Row& g, const RowRule& rule, DType dtype = DType::f64) {
  RuleCase c = row_case(scores, rule, dtype);
  c.arrays().d_o.values = g;
  c.store();
  c.run_backward(Context({.threads = 1, .memory = {.poison = true}}));
  return c.arrays().d_bias;
}

double total(const Row& row) { return std::accumulate(row.begin(), row.end(), 0.0); }
std::size_t support(const Row& row) {
  return static_cast<std::size_t>(std::count_if(row.begin(), row.end(), [](double x) { return x != 0.0; }));
}
Row random_scores(std::size_t n, double size, std::uint64_t seed) {
  Random random(seed);
  Row row(n);
  for (double& x : row) x = size * random.normal();
  return row;
}
Row shifted(Row row, double by) {
  for (double& x : row) x += by;
  return row;
}
void expect_near(const Row& ours, const Row& want, double tolerance) {
  ASSERT_EQ(ours.size(), want.size());
  for (std::size_t j = 0; j < want.size(); ++j) EXPECT_NEAR(ours[j], want[j], tolerance) << "key " << j;
}

const RowRule kSparsemax{.kind = RowRuleKind::sparsemax}, kEntmax{.kind = RowRuleKind::entmax15};
RowRule top_k(std::int64_t k) { return {.kind = RowRuleKind::top_k, .k = k}; }
RowRule margin(double m) { return {.kind = RowRuleKind::margin, .margin = m, .training = true}; }

TEST(RuleLaws, RowsSumToOneAndShiftsDoNotMatter) {
  for (const RowRule& rule : {top_k(7), kSparsemax, kEntmax, margin(0.5)})
    for (double size : {0.01, 1.0, 5.0}) {
      SCOPED_TRACE(name_of(rule.kind));
      const Row scores = random_scores(101, size, 3), row = weights(scores, rule);
      EXPECT_NEAR(total(row), 1.0, 1e-13);
      EXPECT_NEAR(total(weights(scores, rule, DType::f32)), 1.0, 1e-6);
      for (double x : row) EXPECT_GE(x, 0.0);
      expect_near(weights(shifted(scores, 1024.0), rule), row, 1e-12);
    }
}

TEST(RuleLaws, LongRowsSumToOne) {
  Row scores(3001, -0.9997);  // a naive sum of these loses three digits of the threshold
  scores[1700] = 0.0;
  for (const RowRule& rule : {kSparsemax, kEntmax})
    for (const Row& row : {scores, random_scores(3001, 1e-3, 5), Row(3001, 4.0)}) {
      RuleCase c({.n_q = 1, .n_k = 3001, .heads = 1, .kv_heads = 1, .d_k = 1, .d_v = 1, .dtype = DType::f32}, rule);
      c.arrays().q.values[0] = 1.0;
      c.arrays().k.values = row;
      std::fill(c.arrays().v.values.begin(), c.arrays().v.values.end(), 1.0);
      c.store();
      c.run_forward(Context({.threads = 1}));
      EXPECT_NEAR(c.arrays().o.values[0], 1.0, 1e-4) << name_of(rule.kind);  // half a unit per key at worst: 1.8e-4
    }
}

TEST(RuleLaws, TopKKeepsTheFirstOfEquals) {
  const Row ties{1, 3, 2, 3, 3, 2, -kInfinity, 0.0, -0.0};
  for (DType dtype : {DType::f64, DType::f32}) {
    expect_near(weights(ties, top_k(2), dtype), {0, 0.5, 0, 0.5, 0, 0, 0, 0, 0}, 1e-7);
    for (std::int64_t k = 1; k <= 20; ++k) {
      const Row row = weights(ties, top_k(k), dtype);
      EXPECT_EQ(support(row), static_cast<std::size_t>(std::min<std::int64_t>(k, 8)));
      expect_near(row, reference::top_k_weights(ties, k), 1e-6);
    }
  }
  expect_near(weights({0.0, -0.0, 0.0, -0.0}, top_k(3)), {1.0 / 3, 1.0 / 3, 1.0 / 3, 0}, 1e-15);
  expect_near(weights({5, 5, 5, 5, 5}, top_k(3)), {1.0 / 3, 1.0 / 3, 1.0 / 3, 0, 0}, 1e-15);
}

TEST(RuleLaws, TopKFindsEveryThreshold) {
  for (double size : {1e-30, 1e-3, 1.0, 1e4, 1e30}) {
    const Row scores = random_scores(57, size, 11);
    for (std::int64_t k : {1, 2, 13, 56, 57, 100}) {
      EXPECT_EQ(support(weights(scores, {.kind = RowRuleKind::top_k, .k = k})),
                support(reference::top_k_weights(scores, k)));
      expect_near(weights(scores, top_k(k)), reference::top_k_weights(scores, k), 1e-9);
    }
  }
}

TEST(RuleLaws, ThresholdsSatisfyTheirConditions) {
  for (double size : {0.1, 1.0, 3.0}) {
    const Row scores = random_scores(80, size, 17), sparse = weights(scores, kSparsemax),
              half = weights(scores, kEntmax);
    const auto largest = static_cast<std::size_t>(reference::first_largest(scores));
    const double tau = scores[largest] - sparse[largest], tau_half = scores[largest] / 2 - std::sqrt(half[largest]);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      EXPECT_NEAR(sparse[j], std::max(scores[j] - tau, 0.0), 1e-14);
      EXPECT_NEAR(half[j], std::pow(std::max(scores[j] / 2 - tau_half, 0.0), 2), 1e-14);
    }
  }
  EXPECT_LT(support(weights(random_scores(80, 3.0, 1), kSparsemax)), 20u);
  EXPECT_LT(support(weights(random_scores(80, 3.0, 1), kEntmax)), 40u);
}

TEST(RuleLaws, AGapMakesOneHot) {
  for (DType dtype : {DType::f64, DType::f32}) {
    expect_near(weights({-3, 2, 1, 0.5}, kSparsemax, dtype), {0, 1, 0, 0}, 0.0);
    expect_near(weights({-3, 2, 0, -0.5}, kEntmax, dtype), {0, 1, 0, 0}, 0.0);
    EXPECT_GT(weights({-3, 2, 1.01, 0.5}, kSparsemax, dtype)[2], 0.0);
    EXPECT_GT(weights({-3, 2, 0.01, -0.5}, kEntmax, dtype)[2], 0.0);
    expect_near(weights({7}, kSparsemax, dtype), {1}, 0.0);
    expect_near(weights({7}, kEntmax, dtype), {1}, 0.0);
  }
}

TEST(RuleLaws, TheMarginLowersItsTarget) {
  const Row scores = random_scores(30, 1.0, 23), plain = reference::softmax_weights(scores);
  const auto largest = static_cast<std::size_t>(reference::first_largest(scores));
  expect_near(weights(scores, margin(0.0)), plain, 1e-14);
  RowRule resting = margin(0.5);
  resting.training = false;
  expect_near(weights(scores, resting), plain, 1e-14);
  double before = plain[largest];
  for (double m : {0.1, 0.5, 2.0, 100.0}) {
    const double now = weights(scores, margin(m))[largest];
    EXPECT_LT(now, before);
    before = now;
  }
}

TEST(RuleLaws, SelfAdjustFactorsLieBetweenZeroAndOne) {
  const RowRule rule{.kind = RowRuleKind::self_adjust_normalized};
  for (double by : {-5.0, 0.0, 5.0}) {
    const Row scores = shifted(random_scores(40, 1.0, 29), by), row = weights(scores, rule);
    const Row plain = reference::softmax_weights(scores);
    for (std::size_t j = 0; j < row.size(); ++j) {
      EXPECT_GE(row[j], 0.0);
      EXPECT_LE(row[j], plain[j] * (1 + 1e-12));
    }
    const auto largest = static_cast<std::size_t>(reference::first_largest(scores));
    if (scores[largest] > 0) {
      EXPECT_NEAR(row[largest], plain[largest], 1e-14);
    }
  }
  expect_near(weights({0, 0, 0}, rule), {0, 0, 0}, 0.0);
  expect_near(vjp({0, 0, 0}, {1, 2, 3}, rule), {0, 0, 0}, 0.0);
}

// Where softmax is saturated its gradient is gone; that of the adjusted weights is not.
TEST(RuleLaws, SelfAdjustKeepsItsGradient) {
  const RowRule detached{.kind = RowRuleKind::self_adjust_normalized, .detach = true};
  const Row scores{20, 0, 0}, g{1, 0, 0};
  EXPECT_LT(std::fabs(vjp(scores, g, margin(0.0))[0]), 1e-7);
  EXPECT_NEAR(vjp(scores, g, detached)[0], 1.0 / 20, 1e-6);  // of the weight (z - lo) / (hi - lo)
  // With the largest score moving hi as well, its factor stays 1.
  EXPECT_NEAR(vjp(scores, g, {.kind = RowRuleKind::self_adjust_normalized})[0], 0.0, 1e-6);
}

TEST(RuleLaws, HugeScoresStayFinite) {
  RowRule detached{.kind = RowRuleKind::self_adjust_normalized, .detach = true};
  std::vector<RowRule> rules = all_rules();
  rules.push_back(detached);
  for (const RowRule& rule : rules)
    for (double size : {1e4, 1e8, 1e30})
      for (DType dtype : {DType::f64, DType::f32}) {
        SCOPED_TRACE(name_of(rule.kind));
        const Row scores = random_scores(50, size, 31), row = weights(scores, rule, dtype);
        EXPECT_LT(total(row), 1.0 + 1e-6);
        for (double x : row) EXPECT_TRUE(std::isfinite(x));
        for (double x : vjp(scores, random_scores(50, 1.0, 37), rule, dtype)) EXPECT_TRUE(std::isfinite(x));
      }
}

// What the engine promises, for every rule.

Arrays run(
    const Options& options, const RowRule& rule, int threads,
    const std::function<void(RuleCase&)>& change = [](RuleCase&) {}) {
  RuleCase c(options, rule);
  change(c);
  c.store();
  const Context context({.threads = threads, .memory = {.poison = true}});
  c.run_forward(context);
  c.run_backward(context);
  return c.arrays();
}

void expect_same_bits(const Arrays& a, const Arrays& b) {
  for (Field Arrays::*f : {&Arrays::o, &Arrays::dq, &Arrays::dk, &Arrays::dv})
    EXPECT_TRUE(fovea::testing::same_bits((a.*f).values, (b.*f).values));
  EXPECT_TRUE(fovea::testing::same_bits(a.d_bias, b.d_bias)) << "d_bias";
}

TEST(RuleLaws, SameBitsAtAnyThreadCount) {
  std::vector<Options> cases(6);
  cases[0] = {.n_q = 150, .n_k = 150, .heads = 1, .kv_heads = 1, .pattern = Pattern::causal(), .dtype = DType::f32};
  cases[1] = {.batch = 3, .n_q = 90, .n_k = 90, .heads = 4, .kv_heads = 2, .dtype = DType::f32, .dropout = 0.1f};
  cases[2] = {.batch = 2, .n_q = 90, .n_k = 70, .heads = 4, .dtype = DType::f32, .bias = Bias::per_head_broadcast};
  cases[3] = {.n_q = 130, .n_k = 130, .heads = 4, .pattern = Pattern::window(20, 0), .dtype = DType::f32};
  cases[3].bias = Bias::keys_only;
  cases[4] = {.batch = 2, .n_q = 60, .n_k = 60, .heads = 4, .dtype = DType::f32, .bias = Bias::queries_only};
  cases[5] = {.n_q = 150, .n_k = 150, .heads = 6, .dtype = DType::f32, .bias = Bias::queries_of_all_heads};
  for (const Options& options : cases)
    for (const RowRule& rule : all_rules()) {
      const Arrays one = run(options, rule, 1);
      for (int threads : {2, 3, 7}) expect_same_bits(run(options, rule, threads), one);
    }
}

TEST(RuleLaws, TileSizeDoesNotMatter) {
  for (const RowRule& rule : all_rules())
    for (const Pattern& pattern : {Pattern::causal(), Pattern::window(9, 4), Pattern::block_diagonal(12)}) {
      Options options{.n_q = 50, .n_k = 61, .heads = 4, .pattern = pattern, .bias = Bias::dense, .dropout = 0.2f};
      const Arrays want = run(options, rule, 2);
      for (TileSize tile : {TileSize{1, 1}, {7, 5}, {16, 64}, {64, 16}, {128, 128}}) {
        options.tile = tile;
        const Arrays ours = run(options, rule, 2);
        for (Field Arrays::*f : {&Arrays::o, &Arrays::dq, &Arrays::dk, &Arrays::dv})
          EXPECT_LT(difference((ours.*f).values, (want.*f).values), 1e-12) << name_of(rule.kind);
        EXPECT_LT(difference(ours.d_bias, want.d_bias), 1e-12) << name_of(rule.kind);
      }
    }
}

TEST(RuleLaws, EmptyRowsGiveAndTakeNothing) {
  for (const RowRule& rule : all_rules()) {
    Options options{.n_q = 30, .n_k = 12, .pattern = Pattern::causal()};
    const Arrays a = run(options, rule, 2, [](RuleCase& c) {  // whatever comes back into such a row must not matter
      for (std::int64_t i = 0; i < 18; ++i)
        for (std::int64_t h = 0; h < 2; ++h) c.arrays().d_o.at(0, i, h, 3) = c.arrays().q.at(0, i, h, 1) = kNaN;
    });
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 18; ++i)
        for (std::int64_t c = 0; c < 8; ++c) {
          EXPECT_EQ(a.o.at(0, i, h, c), 0.0);
          EXPECT_EQ(a.dq.at(0, i, h, c), 0.0);
        }
    for (const Field* f : {&a.dk, &a.dv})
      for (double x : f->values) EXPECT_TRUE(std::isfinite(x)) << name_of(rule.kind);
  }
}

// A key that a mask hides from everybody, by pattern or by a bias of -infinity, may hold NaN and infinity.
TEST(RuleLaws, HiddenKeysMayHoldNaN) {
  for (const RowRule& rule : all_rules())
    for (bool by_bias : {false, true}) {
      Options options{.n_q = 30, .n_k = 30};
      if (by_bias)
        options.bias = Bias::keys_only;
      else
        options.pattern = Pattern::predicate("not 11", [](std::int64_t, std::int64_t k) { return k != 11; });
      const auto hide = [&](RuleCase& c) {
        if (by_bias) c.arrays().bias[11] = -kInfinity;
      };
      const auto poison = [&](RuleCase& c) {
        hide(c);
        for (std::int64_t x = 0; x < 16; ++x) {
          c.arrays().k.at(0, 11, x / 8, x % 8) = kNaN;
          c.arrays().v.at(0, 11, x / 8, x % 8) = x % 2 == 0 ? kNaN : kInfinity;
        }
      };
      const Arrays want = run(options, rule, 2, hide), ours = run(options, rule, 2, poison);
      for (Field Arrays::*f : {&Arrays::o, &Arrays::dq, &Arrays::dk, &Arrays::dv})
        EXPECT_LT(difference((ours.*f).values, (want.*f).values), 1e-13) << name_of(rule.kind);
    }
}

// A future token may hold NaN without touching the rows before it, and does touch those behind.
TEST(RuleLaws, NaNStaysInItsFuture) {
  for (const RowRule& rule : all_rules()) {
    const Options options{.n_q = 40, .n_k = 40, .pattern = Pattern::causal(), .dtype = DType::f32};
    const Arrays want = run(options, rule, 2),
                 ours = run(options, rule, 2, [](RuleCase&c) {
                   for (std::int64_t x = 0; x < 16; ++x)
                     c.arrays().k.at(0, 21, x / 8, x % 8) = c.arrays().v.at(0, 21, x / 8, x % 8) = kNaN;
                 });
    for (std::int64_t i = 0; i < 40; ++i)
      for (std::int64_t c = 0; c < 8; ++c) {
        if (i < 21)
          EXPECT_NEAR(ours.o.at(0, i, 0, c), want.o.at(0, i, 0, c), 1e-6) << name_of(rule.kind);
        else
          EXPECT_TRUE(std::isnan(ours.o.at(0, i, 0, c))) << name_of(rule.kind);
      }
  }
}

TEST(RuleLaws, ScratchIsLinearInTheKeys) {
  const std::int64_t n = 2048;
  Options options{.n_q = n, .n_k = n, .heads = 1, .kv_heads = 1, .d_k = 16, .d_v = 16, .dtype = DType::f32};
  options.tile = {32, 64};
  const Context context({.threads = 2});
  RuleCase c(options, kSparsemax);
  c.run_forward(context);
  c.run_backward(context);
  // Two threads with scores and gradients of 32 rows, keys and values, and their sums; n x n would be 16.8 MB.
  // (The allocator rounds up by a quarter at most.)
  const std::size_t rows = 2 * 2 * 32 * n * sizeof(float), keys = 4 * 16 * n * sizeof(float);
  EXPECT_LE(context.allocator()->use(Lifetime::scratch).peak, (rows + keys) * 5 / 4 + 64 * guard::gap());
  EXPECT_EQ(context.allocator()->use(Lifetime::scratch).now, 0u);
}

TEST(RuleLaws, RefusesWhatItCannotDo) {
  const Context context({.threads = 1});
  const auto refuses = [&](const RowRule& rule) {
    RuleCase c(Options{}, rule);
    EXPECT_THROW(c.run_forward(context), Error);
    EXPECT_THROW(c.run_backward(context), Error);
  };
  refuses(top_k(0));
  refuses(top_k(-3));
  refuses(margin(-0.1));
  refuses(margin(kNaN));
  refuses(margin(kInfinity));
  RuleCase c(Options{}, kEntmax);
  const Problem problem = c.attention().problem();
  Arrays& a = c.arrays();
  EXPECT_THROW(rule_forward<Device::cpu>(context, problem, kEntmax, Forward{}), Error);
  EXPECT_THROW(rule_backward<Device::cpu>(context, problem, kEntmax, Backward{}), Error);
  EXPECT_THROW(
      rule_forward<Device::cpu>(context, problem, kEntmax, {a.q.in(), a.k.in(), a.v.in(), a.o.out(), a.lse.out()}),
      Error);
}

}  // namespace
}  // namespace fovea::tile::testing
