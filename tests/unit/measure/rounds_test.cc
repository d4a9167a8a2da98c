#include "measure/rounds.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Median, OfOddEvenAndNothing) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(Rounds, CasesAlternateAndMediansAreReported) {
  const Context context({.threads = 1});
  std::string order;
  double step = 0;
  const std::vector<TimedCase> cases{{"a", 1e9,
                                      [&] {
                                        order += 'a';
                                        return 1.0;
                                      }},
                                     {"b", 2e9, [&] {
                                        order += 'b';
                                        return ++step;  // 1 in the uncounted first round
                                      }}};
  // No round is slow enough to be repeated.
  const RoundReport report = measure_rounds(context, cases, {.rounds = 3, .slow = 0.0, .progress = {}});
  EXPECT_EQ(order, "abababab");
  EXPECT_EQ(report.rounds, 3);
  EXPECT_EQ(report.repeated, 0);
  EXPECT_GT(report.anchor, 0);
  EXPECT_EQ(report.cases[0].seconds, 1.0);
  EXPECT_EQ(report.cases[1].seconds, 3.0);
  EXPECT_EQ(report.cases[1].spread, 0.5);
  EXPECT_NEAR(report.cases[0].rate, 1e9, 1);
  EXPECT_NEAR(report.cases[0].share, 1e9 / report.anchor, 0.5 * report.cases[0].share);
}

TEST(Rounds, SlowOnesAreMeasuredAgainButNotForEver) {
  const Context context({.threads = 1});
  int runs = 0;
  const std::vector<TimedCase> cases{{"a", 0, [&] {
                                        ++runs;
                                        return 1.0;
                                      }}};
  // No round reaches twice the best, so all of the allowed repetitions are used.
  const RoundReport report =
      measure_rounds(context, cases, {.rounds = 2, .slow = 2.0, .extra_rounds = 3, .progress = {}});
  EXPECT_EQ(report.repeated, 3);
  EXPECT_EQ(report.rounds, 2);
  EXPECT_EQ(runs, 1 + 2 + 3);
}

TEST(Rounds, ShortRunsAreRepeatedInsideARound) {
  const Context context({.threads = 1});
  int runs = 0;
  const std::vector<TimedCase> cases{{"a", 0, [&] { return static_cast<double>(++runs % 3) * 1e-6; }}};
  const RoundReport report = measure_rounds(context, cases, {.rounds = 1, .slow = 0.0, .progress = {}});
  EXPECT_EQ(runs, 2 * 9);
  EXPECT_EQ(report.cases[0].seconds, 1e-6);
}

TEST(Rounds, ProgressCountsEveryRun) {
  const Context context({.threads = 1});
  std::vector<std::size_t> done;
  const auto second = [] { return 1.0; };
  const std::vector<TimedCase> cases{{"a", 0, second}, {"b", 0, second}};
  measure_rounds(context, cases,
                 {.rounds = 1, .slow = 0.0, .progress = [&](std::size_t i, std::size_t n, std::size_t expected) {
                    EXPECT_EQ(i, done.size() % 2);
                    EXPECT_EQ(expected, 4u);
                    done.push_back(n);
                  }});
  EXPECT_EQ(done, (std::vector<std::size_t>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace fovea
