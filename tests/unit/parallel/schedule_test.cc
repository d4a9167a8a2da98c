#include "parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace fovea::divided {
namespace {

using Key = std::tuple<std::int64_t, std::int64_t, bool>;  // part, chunk, backward

Key key_of(const ScheduledPass& pass) { return {pass.part, pass.chunk, pass.backward}; }

// What a pass waits for: the chunk before it, or the gradients of the chunk after it.
Key needed_by(const ScheduledPass& pass, const PipelineSizes& sizes) {
  if (!pass.backward) return {pass.part, pass.chunk - 1, false};
  if (pass.chunk + 1 == sizes.chunks) return {pass.part, pass.chunk, false};
  return {pass.part, pass.chunk + 1, true};
}

// All ranks at once, each in its own order. Gives how many were not done when nobody could go on.
std::size_t left_over(const PipelineSizes& sizes) {
  std::vector<std::vector<ScheduledPass>> ranks;
  for (std::int64_t r = 0; r < sizes.ranks; ++r) ranks.push_back(pipeline_schedule(sizes, r));
  std::vector<std::size_t> at(ranks.size(), 0);
  std::set<Key> done;
  for (bool moved = true; std::exchange(moved, false);)
    for (std::size_t r = 0; r < ranks.size(); ++r)
      while (at[r] < ranks[r].size()) {
        const ScheduledPass& pass = ranks[r][at[r]];
        if ((pass.backward || pass.chunk > 0) && !done.contains(needed_by(pass, sizes))) break;
        done.insert(key_of(pass));
        ++at[r];
        moved = true;
      }
  std::size_t left = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) left += ranks[r].size() - at[r];
  return left;
}

void for_all_sizes(const auto& check) {
  for (std::int64_t ranks = 1; ranks <= 5; ++ranks)
    for (std::int64_t each = 1; each <= (ranks == 1 ? 1 : 4); ++each)
      for (std::int64_t parts = 1; parts <= 13; ++parts) {
        const PipelineSizes sizes{ranks, ranks * each, parts};
        SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << sizes.chunks << " chunks, " << parts << " parts");
        check(sizes);
      }
}

TEST(Schedule, DoesEveryPassOnce) {
  for_all_sizes([](const PipelineSizes& sizes) {
    for (std::int64_t r = 0; r < sizes.ranks; ++r) {
      std::set<Key> seen;
      for (const ScheduledPass& pass : pipeline_schedule(sizes, r)) {
        EXPECT_EQ(pass.chunk % sizes.ranks, r);
        EXPECT_LT(pass.chunk, sizes.chunks);
        EXPECT_LT(pass.part, sizes.parts);
        EXPECT_TRUE(seen.insert(key_of(pass)).second);
        if (pass.backward) {
          EXPECT_TRUE(seen.contains({pass.part, pass.chunk, false}));
        }
      }
      EXPECT_EQ(std::ssize(seen), 2 * sizes.parts * sizes.chunks / sizes.ranks);
    }
  });
}

TEST(Schedule, NobodyWaitsForEver) {
  for_all_sizes([](const PipelineSizes& sizes) { EXPECT_EQ(left_over(sizes), 0u); });
}

// What a rank gives to its neighbour, that takes in the same order.
TEST(Schedule, NeighboursAgreeOnTheOrder) {
  for_all_sizes([](const PipelineSizes& sizes) {
    if (sizes.ranks == 1) return;
    for (std::int64_t r = 0; r < sizes.ranks; ++r) {
      const std::int64_t next = (r + 1) % sizes.ranks;
      for (const bool backward : {false, true}) {
        std::vector<Key> here, there;  // by the lower chunk of the two
        for (const ScheduledPass& pass : pipeline_schedule(sizes, r))
          if (pass.backward == backward && pass.chunk + 1 < sizes.chunks) here.push_back(key_of(pass));
        for (const ScheduledPass& pass : pipeline_schedule(sizes, next))
          if (pass.backward == backward && pass.chunk > 0) there.emplace_back(pass.part, pass.chunk - 1, backward);
        EXPECT_EQ(here, there);
      }
    }
  });
}

// A rank keeps the activations of as many parts as there are ranks from it to the end, however many there are in all.
TEST(Schedule, FewPartsWaitForTheirGradients) {
  for (std::int64_t r = 0; r < 4; ++r) {
    std::int64_t now = 0, most = 0;
    for (const ScheduledPass& pass : pipeline_schedule({4, 4, 32}, r))
      most = std::max(most, now += pass.backward ? -1 : 1);
    EXPECT_EQ(most, 4 - r);
  }
}

TEST(Schedule, OneRankTakesPartByPart) {
  const std::vector<ScheduledPass> expected = {{0, 0, false}, {0, 0, true}, {1, 0, false}, {1, 0, true}};
  EXPECT_EQ(pipeline_schedule({1, 1, 2}, 0), expected);
}

}  // namespace
}  // namespace fovea::divided
