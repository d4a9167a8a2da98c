#include "measure/rounds.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Median, OfOddEvenAndNothing) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}

// Rates handed out one after the other, two for each round; the last one stays.
std::function<double()> script(std::vector<double> rates) {
  return
      [rates = std::move(rates), next = std::size_t{0}]() mutable { return rates[std::min(next++, rates.size() - 1)]; };
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
  RoundOptions options;
  options.rounds = 3;
  options.anchor = script({4e9});
  const RoundReport report = measure_rounds(context, cases, options);
  EXPECT_EQ(order, "abababab");
  EXPECT_EQ(report.rounds, 3);
  EXPECT_EQ(report.repeated, 0);
  EXPECT_EQ(report.anchor, 4e9);
  EXPECT_EQ(report.cases[0].seconds, 1.0);
  EXPECT_EQ(report.cases[1].seconds, 3.0);
  EXPECT_EQ(report.cases[1].spread, 0.5);
  EXPECT_EQ(report.cases[0].rate, 1e9);
  EXPECT_EQ(report.cases[0].share, 0.25);
}

TEST(Rounds, SharesReferToTheAnchorOfTheSameRound) {
  const Context context({.threads = 1});
  double seconds = 8.0;
  const std::vector<TimedCase> cases{{"a", 8e9, [&] { return seconds /= 2.0; }}};  // 4 uncounted, 2, 1, 0.5
  RoundOptions options;
  options.rounds = 3;
  options.slow = 0.0;
  options.anchor = script({1, 1, 4e9, 4e9, 8e9, 8e9, 16e9, 16e9});  // the clock doubles with every round
  const RoundReport report = measure_rounds(context, cases, options);
  EXPECT_EQ(report.cases[0].share, 1.0);
  EXPECT_EQ(report.cases[0].seconds, 1.0);
}

TEST(Rounds, SlowOnesAreMeasuredAgain) {
  const Context context({.threads = 1});
  int runs = 0;
  const std::vector<TimedCase> cases{{"a", 0, [&] { return static_cast<double>(++runs); }}};
  RoundOptions options;
  options.rounds = 2;
  // Rounds 1, 4 and 5 are good; 2 is slow at its end; 1 turns out slow when 3 shows what the machine can do.
  options.anchor = script({9, 9, 8, 8, 8, 5, 10, 10, 9.5, 9.5});
  const RoundReport report = measure_rounds(context, cases, options);
  EXPECT_EQ(report.repeated, 2);
  EXPECT_EQ(report.rounds, 2);
  EXPECT_EQ(report.cases[0].seconds, 4.5);  // runs 4 and 5
}

TEST(Rounds, SlowOnesAreNotRepeatedForEver) {
  const Context context({.threads = 1});
  int runs = 0;
  const std::vector<TimedCase> cases{{"a", 0, [&] {
                                        ++runs;
                                        return 1.0;
                                      }}};
  RoundOptions options;
  options.rounds = 2;
  options.slow = 2.0;  // no round reaches twice the best
  options.extra_rounds = 3;
  options.anchor = script({1});
  const RoundReport report = measure_rounds(context, cases, options);
  EXPECT_EQ(report.repeated, 3);
  EXPECT_EQ(report.rounds, 2);
  EXPECT_EQ(runs, 1 + 2 + 3);
}

TEST(Rounds, ShortRunsAreRepeatedInsideARound) {
  const Context context({.threads = 1});
  int runs = 0;
  const std::vector<TimedCase> cases{{"a", 0, [&] { return static_cast<double>(++runs % 3) * 1e-6; }}};
  RoundOptions options;
  options.rounds = 1;
  options.anchor = script({1});
  const RoundReport report = measure_rounds(context, cases, options);
  EXPECT_EQ(runs, 2 * 9);
  EXPECT_EQ(report.cases[0].seconds, 1e-6);
}

TEST(Rounds, ProgressCountsEveryRun) {
  const Context context({.threads = 1});
  std::vector<std::size_t> done;
  const auto second = [] { return 1.0; };
  const std::vector<TimedCase> cases{{"a", 0, second}, {"b", 0, second}};
  RoundOptions options;
  options.rounds = 1;
  options.anchor = script({1});
  options.progress = [&](std::size_t i, std::size_t n, std::size_t expected) {
    EXPECT_EQ(i, done.size() % 2);
    EXPECT_EQ(expected, 4u);
    done.push_back(n);
  };
  measure_rounds(context, cases, options);
  EXPECT_EQ(done, (std::vector<std::size_t>{1, 2, 3, 4}));
}

TEST(Rounds, AnchorIsTheMatrixProductUnlessGiven) {
  const Context context({.threads = 1});
  const std::vector<TimedCase> cases{{"a", 1e9, [] { return 1.0; }}};
  RoundOptions options;
  options.rounds = 1;
  options.slow = 0.0;
  EXPECT_GT(measure_rounds(context, cases, options).anchor, 1e8);
}

}  // namespace
}  // namespace fovea
