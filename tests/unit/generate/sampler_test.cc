#include "generate/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rng.h"
#include "support/expect_error.h"

namespace fovea {

// Beside the type: GoogleTest looks for it there.
static void PrintTo(const GenerateOptions& o, std::ostream* out) {
  *out << "temperature " << o.temperature << ", top k " << o.top_k << ", top p " << o.top_p;
}

namespace {

std::vector<float> random_logits(std::size_t count, std::uint64_t seed) {
  Random random(seed, 1);
  std::vector<float> logits(count);
  for (float& x : logits) x = static_cast<float>(2.0 * random.normal());
  return logits;
}

// Probabilities by the plain definitions: divide, keep the k best, keep the fewest that reach p, renormalise.
std::vector<double> exact(const std::vector<float>& logits, const GenerateOptions& options) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(options.top_k)));
  const auto weight = [&](std::size_t i) { return std::exp((logits[i] - logits[order[0]]) / options.temperature); };
  double sum = 0.0, reached = 0.0;
  for (const std::size_t i : order) sum += weight(i);
  std::vector<double> probabilities(logits.size(), 0.0);
  double kept = 0.0;
  for (const std::size_t i : order) {
    if (reached >= options.top_p * sum && options.top_p < 1.0) break;
    reached += weight(i);
    kept += probabilities[i] = weight(i);
  }
  for (double& p : probabilities) p /= kept;
  return probabilities;
}

class Sampling : public ::testing::TestWithParam<GenerateOptions> {};
INSTANTIATE_TEST_SUITE_P(Options, Sampling,
                         ::testing::Values(GenerateOptions{.temperature = 1.0}, GenerateOptions{.temperature = 0.6},
                                           GenerateOptions{.temperature = 2.5},
                                           GenerateOptions{.temperature = 1.0, .top_k = 5},
                                           GenerateOptions{.temperature = 1.0, .top_k = 1},
                                           GenerateOptions{.temperature = 1.2, .top_p = 0.7},
                                           GenerateOptions{.temperature = 1.2, .top_p = 0.01},
                                           GenerateOptions{.temperature = 1.5, .top_k = 11, .top_p = 0.9}),
                         [](const auto& info) {
                           const auto percent = [](double share) { return std::to_string(std::lround(100 * share)); };
                           return "t" + percent(info.param.temperature) + "_k" + std::to_string(info.param.top_k) +
                                  "_p" + percent(info.param.top_p);
                         });

// Pearson's statistic over 20000 draws stays below its mean plus five deviations, and nothing impossible is drawn.
TEST_P(Sampling, FollowsTheExactProbabilities) {
  constexpr int kDraws = 20000;
  const auto logits = random_logits(23, 7);
  const auto probabilities = exact(logits, GetParam());
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(choose(logits, GetParam(), {3, i % 7, i / 7}))];
  double statistic = 0.0, freedom = -1.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double expected = kDraws * probabilities[i];
    if (probabilities[i] == 0.0) {
      EXPECT_EQ(counts[i], 0) << i;
      continue;
    }
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    freedom += 1.0;
  }
  EXPECT_LE(statistic, freedom + 5.0 * std::sqrt(2.0 * freedom));
}

TEST(Sampler, KeepsExactlyWhatTheDefinitionsKeep) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto logits = random_logits(3 + seed % 50, seed);
    const GenerateOptions options{.temperature = 1.7,
                                  .top_k = static_cast<std::int64_t>(seed % 9),
                                  .top_p = 0.2 + 0.02 * static_cast<double>(seed % 40)};
    const auto probabilities = exact(logits, options);
    for (int step = 0; step < 200; ++step)
      EXPECT_GT(probabilities[static_cast<std::size_t>(choose(logits, options, {seed, 0, step}))], 0.0);
  }
}

TEST(Sampler, TakesTheFirstOfEquals) {
  const std::vector<float> logits{0.0f, 2.0f, -1.0f, 2.0f, 2.0f};
  EXPECT_EQ(choose(logits, {}, {}), 1);
  for (int step = 0; step < 100; ++step) EXPECT_NE(choose(logits, {.temperature = 1.0, .top_k = 2}, {1, 0, step}), 4);
}

TEST(Sampler, ADrawDependsOnSeedSequenceAndStep) {
  const auto logits = random_logits(1000, 3);
  const GenerateOptions options{.temperature = 3.0};
  const std::int32_t drawn = choose(logits, options, {5, 6, 7});
  EXPECT_EQ(choose(logits, options, {5, 6, 7}), drawn);
  int same = 0;
  for (const Draw& draw : {Draw{4, 6, 7}, Draw{5, 5, 7}, Draw{5, 6, 8}, Draw{5, 7, 6}})
    same += choose(logits, options, draw) == drawn ? 1 : 0;
  EXPECT_LT(same, 2);
}

TEST(Sampler, ImpossibleTokensAreNeverDrawn) {
  std::vector<float> logits(9, -INFINITY);
  logits[4] = -3.0f;
  for (int step = 0; step < 50; ++step) EXPECT_EQ(choose(logits, {.temperature = 9.0}, {2, 0, step}), 4);
}

TEST(Sampler, PenalisesEveryTokenSeenOnce) {
  std::vector<float> logits{2.0f, -2.0f, 3.0f, -4.0f};
  penalize(logits, std::vector<std::int32_t>{1, 0, 1, 77, 0}, 2.0);
  EXPECT_EQ(logits, (std::vector<float>{1.0f, -4.0f, 3.0f, -4.0f}));
  penalize(logits, std::vector<std::int32_t>{2}, 1.0);
  EXPECT_EQ(logits[2], 3.0f);
}

TEST(Sampler, RefusesWhatIsNotANumber) {
  EXPECT_ERROR(check_logits(std::vector<float>{1.0f, NAN}), ErrorCode::diverged, "not a number", "logits", "");
  EXPECT_ERROR(check_logits(std::vector<float>(3, -INFINITY)), ErrorCode::diverged, "not a number", "logits", "");
  EXPECT_ERROR(check_logits(std::vector<float>{1.0f, INFINITY}), ErrorCode::diverged, "not a number", "logits", "");
  check_logits(std::vector<float>{1.0f, -INFINITY});
}

}  // namespace
}  // namespace fovea
