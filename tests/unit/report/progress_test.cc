#include "report/progress.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

// A progress bar whose clock and paper the test holds.
struct Bench {
  explicit Bench(Terminal terminal, bool quiet = false)
      : progress({.label = "transformer",
                  .label_width = 14,
                  .terminal = terminal,
                  .quiet = quiet,
                  .write = [this](std::string_view text) { out += text; },
                  .seconds = [this] { return now; }}) {}

  double now = 100;
  std::string out;
  Progress progress;
};

constexpr Terminal kScreen = {.interactive = true, .colour = true, .width = 100};

TEST(Progress, ShowsHowFarHowFastAndHowLongStill) {
  Bench bench(kScreen);
  bench.progress.update({.step = 0, .total = 200});
  bench.now += 10;
  bench.progress.update({.step = 50, .total = 200, .loss = 1.7123, .accuracy = 0.36});
  EXPECT_EQ(bench.out,
            "\r\033[Ktransformer     █████░░░░░░░░░░░░░░░  50/200  5.00 steps/s  loss 1.71  acc 36.0%  0:30 left");
  bench.now += 30;
  bench.out.clear();
  bench.progress.update({.step = 200, .total = 200});
  bench.progress.finish();
  EXPECT_TRUE(bench.out.ends_with("████████████████████  200/200  5.00 steps/s  0:40\n")) << bench.out;
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  Bench bench(kScreen);
  for (int i = 0; i < 100; ++i) {
    bench.progress.update({.step = i, .total = 1000});
    bench.now += 0.01;
  }
  EXPECT_LE(std::count(bench.out.begin(), bench.out.end(), '\r'), 11);
  EXPECT_GE(std::count(bench.out.begin(), bench.out.end(), '\r'), 8);
}

TEST(Progress, FitsNarrowTerminals) {
  for (const int width : {10, 30, 60, 70, 80}) {
    Bench bench({.interactive = true, .colour = false, .width = width});
    bench.progress.update({.step = 1, .total = 1000, .loss = 2.3, .accuracy = 0.1});
    bench.now += 1;
    bench.progress.update({.step = 2, .total = 1000, .loss = 2.3, .accuracy = 0.1});
    EXPECT_LT(text_width(bench.out) - 4, static_cast<std::size_t>(width)) << bench.out;  // less "\r\033[K"
  }
}

TEST(Progress, PlainLinesEveryFewSecondsElsewhere) {
  Bench bench({});
  for (int i = 0; i <= 96; ++i) {
    bench.progress.update({.step = i, .total = 160});
    bench.now += 0.125;
  }
  EXPECT_EQ(bench.out.find('\r'), std::string::npos);
  EXPECT_EQ(std::count(bench.out.begin(), bench.out.end(), '\n'), 3);  // after 1, 6 and 11 seconds
  EXPECT_EQ(bench.out.substr(0, bench.out.find('\n')), "transformer     5%  8/160  8.00 steps/s  0:19 left");
}

TEST(Progress, TheClockMayDecide) {
  Bench bench(kScreen);
  bench.progress.update({.step = 0, .share = 0});
  bench.now += 30;
  bench.progress.update({.step = 600, .share = 0.5});
  EXPECT_NE(bench.out.find("██████████░░░░░░░░░░  600  20.0 steps/s  0:30 left"), std::string::npos) << bench.out;
}

TEST(Progress, AResumedRunCountsFromWhereItStarted) {
  Bench bench(kScreen);
  bench.progress.update({.step = 500, .total = 1000});
  bench.now += 10;
  bench.progress.update({.step = 600, .total = 1000});
  EXPECT_NE(bench.out.find("600/1000  10.0 steps/s  0:40 left"), std::string::npos) << bench.out;
}

TEST(Progress, HidesForOtherText) {
  Bench bench(kScreen);
  bench.progress.hide();
  EXPECT_EQ(bench.out, "");
  bench.progress.update({.step = 0, .total = 10});
  bench.now += 1;
  bench.progress.update({.step = 1, .total = 10});
  bench.out.clear();
  bench.progress.hide();
  EXPECT_EQ(bench.out, "\r\033[K");
}

TEST(Progress, ARateMayBeGivenInOtherUnits) {
  std::string out;
  double now = 0;
  Progress progress({.label = "x",
                     .unit = "tokens",
                     .write = [&](std::string_view text) { out += text; },
                     .seconds = [&] { return now; }});
  progress.update({.step = 1, .total = 10, .rate = 12345.6, .notice = "validating 40%"});
  now += 2;
  progress.update({.step = 1, .total = 10, .rate = 12345.6, .notice = "validating 50%"});
  EXPECT_EQ(out, "x  10%  1/10  12.3k tokens/s  validating 50%  -:-- left\n");
}

TEST(Progress, APassingBarLeavesNothing) {
  for (const bool interactive : {true, false}) {
    std::string out;
    double now = 0;
    {
      Progress progress({.label = "x",
                         .terminal = {.interactive = interactive, .colour = false, .width = 80},
                         .passing = true,
                         .write = [&](std::string_view text) { out += text; },
                         .seconds = [&] { return now; }});
      progress.update({.step = 1, .total = 10});
      now += 2;
      progress.update({.step = 2, .total = 10});
    }
    EXPECT_NE(out.find("2/10"), std::string::npos) << out;
    EXPECT_EQ(out.ends_with("\r\033[K"), interactive) << out;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), interactive ? 0 : 1) << out;
  }
}

TEST(Progress, QuietWritesNothing) {
  Bench bench(kScreen, true);
  bench.progress.update({.step = 0, .total = 10});
  bench.now += 9;
  bench.progress.update({.step = 10, .total = 10});
  bench.progress.finish();
  EXPECT_EQ(bench.out, "");
}

TEST(Progress, NeverUpdatedLeavesNothing) {
  std::string out;
  {
    Progress progress({.label = "x", .write = [&](std::string_view text) { out += text; }});
  }
  EXPECT_EQ(out, "");
}

}  // namespace
}  // namespace fovea
