#include "core/parallel.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include "support/expect_error.h"

namespace fovea {
namespace {

TEST(Parallel, EveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    const Context context({.threads = threads});
    for (std::int64_t count : {0, 1, 7, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(count), 0);
      parallel_for(context, count, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
      for (int s : seen) ASSERT_EQ(s, 1);
    }
  }
}

TEST(Parallel, RangesDoNotDependOnThreads) {
  const auto pieces = [](int threads) {
    const Context context({.threads = threads});
    std::mutex mutex;
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    parallel_ranges(context, 103, 10, [&](std::int64_t begin, std::int64_t end) {
      const std::lock_guard lock(mutex);
      seen.emplace(begin, end);
    });
    return seen;
  };
  EXPECT_EQ(pieces(1), pieces(3));
  EXPECT_EQ(pieces(2).size(), 11u);
  EXPECT_TRUE(pieces(2).contains({100, 103}));
}

TEST(Parallel, ExceptionsReachTheCaller) {
  for (int threads : {1, 2, 4}) {
    const Context context({.threads = threads});
    const auto throwing = [&] {
      parallel_for(context, 100, [](std::int64_t i) {
        if (i == 37) fail(ErrorCode::bad_input, "row 37");
      });
    };
    EXPECT_ERROR(throwing(), ErrorCode::bad_input, "row 37", "", "");
  }
}

TEST(Parallel, BarrierSeparatesPhases) {
  constexpr int kThreads = 3;
  std::vector<int> first(kThreads, 0), second(kThreads, 0);
  parallel(kThreads, [&](const Team& team) {
    first[static_cast<std::size_t>(team.rank())] = team.rank() + 1;
    team.barrier();
    int sum = 0;
    for (int i = 0; i < team.size(); ++i) sum += first[static_cast<std::size_t>(i)];
    second[static_cast<std::size_t>(team.rank())] = sum;
  });
  const int whole = 1 + 2 + 3;
  for (int s : second) EXPECT_TRUE(s == whole || s == 0 || s == 1);  // fewer threads if the system gives fewer
  EXPECT_GT(second[0], 0);
}

TEST(Context, RefusesImpossibleThreads) {
  EXPECT_ERROR(Context({.threads = -1}), ErrorCode::usage, "threads must be between", "threads", "");
  EXPECT_ERROR(Context({.threads = 5000}), ErrorCode::usage, "5000", "threads", "");
  EXPECT_GE(Context({.threads = 0}).threads(), 1);
}

}  // namespace
}  // namespace fovea
