#include "core/stop.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/parallel.h"
#include "fovea/error.h"

namespace fovea {
namespace {

std::atomic<bool> g_answer{false};
std::atomic<int> g_asked{0};

bool question() {
  ++g_asked;
  return g_answer;
}

class StopTest : public testing::TestWithParam<int> {
 protected:
  StopTest() : context_({.threads = GetParam()}) {
    g_answer = false;
    g_asked = 0;
  }

  // How many of a thousand pieces of 2 ms were done.
  int run() {
    std::atomic<int> done{0};
    const Stop stop(question);
    try {
      parallel_for(context_, 1000, [&](std::int64_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        ++done;
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::interrupted);
    }
    return done;
  }

  Context context_;
};

TEST_P(StopTest, EndsTheWorkWithinASecond) {
  g_answer = true;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_LT(run(), 1000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(g_asked, 1);
}

TEST_P(StopTest, LetsTheWorkEndWhenTheAnswerIsNo) {
  EXPECT_EQ(run(), 1000);
  EXPECT_GE(g_asked, 2);
  EXPECT_LE(g_asked, 40);
}

TEST_P(StopTest, ReachesIntoALongTask) {
  g_answer = true;
  const Stop stop(question);
  const auto start = std::chrono::steady_clock::now();
  const auto work = [&](const Team& team) {
    while (!team.stopping() && std::chrono::steady_clock::now() - start < std::chrono::seconds(5)) {
    }
  };
  EXPECT_THROW(parallel(GetParam(), work), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_P(StopTest, IsGoneAfterwards) {
  g_answer = true;
  run();
  std::atomic<int> done{0};
  parallel_for(context_, 100, [&](std::int64_t) { ++done; });
  EXPECT_EQ(done, 100);
}

INSTANTIATE_TEST_SUITE_P(Threads, StopTest, testing::Values(1, 2));

TEST(Stop, BelongsToItsThread) {
  const Stop stop(question);
  EXPECT_EQ(Stop::current(), &stop);
  std::thread([] { EXPECT_EQ(Stop::current(), nullptr); }).join();
  {
    const Stop inner(question);
    EXPECT_EQ(Stop::current(), &inner);
  }
  EXPECT_EQ(Stop::current(), &stop);
}

}  // namespace
}  // namespace fovea
