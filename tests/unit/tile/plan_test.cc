// Patterns against their own definition, and plans against a brute-force walk over all pairs.

#include "tile/plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/error.h"
#include "fovea/pattern.h"
#include "tile/cpu/band.h"
#include "tile/cpu/units.h"

namespace fovea::tile {
namespace {

std::vector<Pattern> patterns() {
  const Pattern scattered =
      Pattern::predicate("scattered", [](std::int64_t q, std::int64_t k) { return (q * 5 + k * 11) % 7 < 2; });
  const Pattern filled =
      Pattern::filled("filled", [=](const Pattern::Rect& rect, std::size_t words, std::span<std::uint64_t> bits) {
        scattered.mask(rect, words, bits);
      });
  return {Pattern::full(),
          filled,
          filled & Pattern::causal(),
          Pattern::causal(),
          Pattern::window(0, 0),
          Pattern::window(3, 2),
          Pattern::window(-1, 4),
          Pattern::window(9, -1),
          Pattern::block_diagonal(1),
          Pattern::block_diagonal(6),
          Pattern::block_diagonal(16),
          Pattern::block_diagonal(1000),
          scattered,
          Pattern::predicate("never", [](std::int64_t, std::int64_t) { return false; }),
          Pattern::predicate("always", [](std::int64_t, std::int64_t) { return true; }),
          Pattern::causal() & Pattern::window(5, 5),
          Pattern::window(2, 0) | Pattern::block_diagonal(8),
          Pattern::causal() & (scattered | Pattern::block_diagonal(4)),
          Pattern::window(0, 0) & Pattern::predicate("none", [](std::int64_t, std::int64_t) { return false; }),
          Pattern::box({2, 19, 5, 24}),
          Pattern::box({-100, 100, 0, 3}) | Pattern::box({0, 3, 0, 100}) | Pattern::window(2, 2),
          Pattern::comb(8, 5, 8),
          Pattern::comb(3, 1, 1),
          Pattern::distances({0, 1, 2, 4, 8, 16, -1, -2, 7, 7}),
          Pattern::distances({}),
          Pattern::blocks(5, {{0, 1}, {3, 1, 1}, {}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {2}}),
          ~Pattern::window(3, 1),
          ~Pattern::window(3, 1) & Pattern::causal(),
          ~(Pattern::block_diagonal(6) | scattered),
          Pattern::window(9, 4).every(4, 3),
          (~Pattern::window(5, 5) & Pattern::box({0, 60, 3, 40})).every(3, 2),
          (Pattern::comb(8, 5, 8) | Pattern::block_diagonal(8)).every(5, 1),
          scattered.every(2, 1),
          Pattern::causal().shifted(3, 9),
          scattered.shifted(-4, 2),
          filled.shifted(7, 0) & Pattern::window(12, 12).shifted(0, 3),
          (~Pattern::comb(8, 5, 8) | Pattern::box({0, 60, 3, 40})).shifted(11, 6),
          Pattern::distances({0, 3, -5}).shifted(-2, 4).every(2, 1)};
}

// What the plan says about every pair, by rows or by columns.
std::vector<char> kept_pairs(const Plan& plan, bool by_rows) {
  std::vector<char> kept(static_cast<std::size_t>(plan.n_q * plan.n_k), 0);
  const std::int64_t blocks = by_rows ? plan.query_blocks() : plan.key_blocks();
  for (std::int64_t i = 0; i < blocks; ++i)
    for (const Plan::Entry& entry : by_rows ? plan.row(i) : plan.column(i))
      for (std::int32_t b = entry.block; b < entry.block + entry.count; ++b) {
        const std::int64_t q0 = (by_rows ? i : b) * plan.tile_q, k0 = (by_rows ? b : i) * plan.tile_k;
        for (std::int64_t q = q0; q < std::min(q0 + plan.tile_q, plan.n_q); ++q)
          for (std::int64_t k = k0; k < std::min(k0 + plan.tile_k, plan.n_k); ++k) {
            bool keep = entry.mask == Plan::kWhole;
            if (!keep) {
              const std::uint64_t* words = plan.mask(entry.mask) + (k - k0) * plan.words_per_key();
              keep = words[(q - q0) / 64] >> ((q - q0) % 64) & 1;
            }
            char& seen = kept[static_cast<std::size_t>(q * plan.n_k + k)];
            EXPECT_EQ(seen, 0) << "a pair twice";
            seen = keep;
          }
      }
  return kept;
}

void check_plan(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile) {
  const Plan plan = compile_plan(pattern, n_q, n_k, tile);
  std::vector<char> want;
  std::int64_t count = 0;
  for (std::int64_t q = 0; q < n_q; ++q)
    for (std::int64_t k = 0; k < n_k; ++k) {
      want.push_back(pattern.keep(q + n_k - n_q, k));
      count += want.back();
    }
  EXPECT_EQ(kept_pairs(plan, true), want);
  EXPECT_EQ(kept_pairs(plan, false), want);
  EXPECT_EQ(plan.kept_pairs, count);
}

TEST(Pattern, EveryStepIsThePatternAmongThoseTokens) {
  for (const Pattern& pattern : patterns())
    for (const std::int64_t step : {1, 2, 3, 7})
      for (const std::int64_t first : {0, 1, 6}) {
        const Pattern every = pattern.every(step, first);
        for (std::int64_t i = -9; i < 12; ++i)
          for (std::int64_t j = 0; j < 12; ++j)
            ASSERT_EQ(every.keep(i, j), pattern.keep(first + i * step, first + j * step)) << every.text();
      }
}

TEST(Pattern, ShiftedIsThePatternFromAPartOfTheRows) {
  for (const Pattern& pattern : patterns())
    for (const auto& [query, key] : std::vector<std::pair<int, int>>{{0, 0}, {5, 0}, {-3, 4}, {11, 17}}) {
      const Pattern part = pattern.shifted(query, key);
      for (std::int64_t i = -9; i < 12; ++i)
        for (std::int64_t j = 0; j < 12; ++j)
          ASSERT_EQ(part.keep(i, j), pattern.keep(i + query, j + key)) << part.text();
    }
}

TEST(Pattern, StepsOfAWindowDoNotDependOnTheClass) {
  const Pattern pattern = ~Pattern::window(9, 9) & Pattern::causal();
  EXPECT_EQ(pattern.every(5, 0).text(), pattern.every(5, 3).text()) << "all classes share one plan";
}

TEST(Pattern, WrongRulesAreRefused) {
  EXPECT_THROW(Pattern::comb(0, 0, 0), Error);
  EXPECT_THROW(Pattern::comb(4, 3, 2), Error);
  EXPECT_THROW(Pattern::comb(4, 0, 5), Error);
  EXPECT_THROW(Pattern::blocks(0, {}), Error);
  EXPECT_THROW(Pattern::full().every(0, 0), Error);
}

TEST(Plan, HoldsExactlyThePatternsPairs) {
  for (const Pattern& pattern : patterns())
    for (const auto& [n_q, n_k] :
         std::vector<std::pair<int, int>>{{1, 1}, {16, 16}, {37, 37}, {20, 41}, {41, 20}, {0, 5}, {5, 0}})
      for (TileSize tile : {TileSize{1, 1}, {8, 8}, {16, 4}, {5, 7}, {64, 64}, {100, 16}}) {
        SCOPED_TRACE(pattern.text() + " " + std::to_string(n_q) + " x " + std::to_string(n_k) + " tile " +
                     std::to_string(tile.query) + " x " + std::to_string(tile.key));
        check_plan(pattern, n_q, n_k, tile);
      }
}

TEST(Plan, CoversEveryBlockWithIslandsThatShareNothing) {
  for (const Pattern& pattern : patterns())
    for (TileSize tile : {TileSize{4, 4}, {8, 16}, {5, 3}}) {
      const Plan plan = compile_plan(pattern, 61, 50, tile);
      std::int32_t query = 0, key = 0;
      for (const Plan::Island& island : plan.islands) {
        EXPECT_EQ(island.query_begin, query);
        EXPECT_EQ(island.key_begin, key);
        query = island.query_end;
        key = island.key_end;
        for (std::int32_t block = island.query_begin; block < island.query_end; ++block)
          for (const Plan::Entry& entry : plan.row(block)) {
            EXPECT_GE(entry.block, island.key_begin);
            EXPECT_LE(entry.block + entry.count, island.key_end);
          }
      }
      EXPECT_EQ(query, plan.query_blocks());
      EXPECT_EQ(key, plan.key_blocks());
    }
  EXPECT_EQ(compile_plan(Pattern::block_diagonal(16), 160, 160, {16, 16}).islands.size(), 10u);
  EXPECT_EQ(compile_plan(Pattern::causal(), 160, 160, {16, 16}).islands.size(), 1u);
}

TEST(Plan, StoresEqualMasksOnce) {
  const Plan causal = compile_plan(Pattern::causal(), 640, 640, {32, 32});
  EXPECT_EQ(causal.masks.size(), 32u);  // one mask of 32 keys, one word each
  const Plan window = compile_plan(Pattern::window(64, 0), 640, 640, {32, 32});
  EXPECT_EQ(window.masks.size(), 64u);  // the two ends of the window
}

TEST(Plan, StaysSmallForLongSequences) {
  const Plan full = compile_plan(Pattern::full(), 1 << 18, 1 << 18, {64, 64});
  EXPECT_EQ(full.rows.size(), 4096u);
  EXPECT_EQ(full.columns.size(), 4096u);
  const Plan causal = compile_plan(Pattern::causal(), 1 << 16, 1 << 16, {64, 64});
  EXPECT_LT(causal.bytes(), std::size_t{1} << 17);
}

TEST(Plan, IsCachedByTextAndSizes) {
  const auto a = plan_for(Pattern::window(7, 7), 100, 100, {16, 16});
  EXPECT_EQ(a, plan_for(Pattern::window(7, 7), 100, 100, {16, 16}));
  EXPECT_NE(a, plan_for(Pattern::window(7, 8), 100, 100, {16, 16}));
  EXPECT_NE(a, plan_for(Pattern::window(7, 7), 100, 101, {16, 16}));
  EXPECT_NE(a, plan_for(Pattern::window(7, 7), 100, 100, {16, 8}));
  const auto keep = [](std::int64_t, std::int64_t) { return true; };
  const auto keyed = [&](const char* name, const char* key) {
    return plan_for(Pattern::predicate(name, keep, key), 9, 9, {4, 4});
  };
  EXPECT_EQ(keyed("p", "1"), keyed("p", "1"));
  EXPECT_NE(keyed("p", "1"), keyed("p", "2"));
  EXPECT_NE(keyed("p", "1"), keyed("q", "1"));
  EXPECT_NE(plan_for(Pattern::predicate("p", keep), 9, 9, {4, 4}),
            plan_for(Pattern::predicate("p", keep), 9, 9, {4, 4}));
}

TEST(Plan, RefusesImpossibleSizes) {
  EXPECT_THROW(compile_plan(Pattern::full(), -1, 4, {16, 16}), Error);
  EXPECT_THROW(compile_plan(Pattern::full(), 4, std::int64_t{1} << 50, {16, 16}), Error);
  EXPECT_THROW(compile_plan(Pattern::full(), 4, 4, {0, 16}), Error);
  EXPECT_THROW(compile_plan(Pattern::full(), 4, 4, {16, 100'000}), Error);
  EXPECT_THROW(compile_plan(Pattern::full(), 4, std::int64_t{1} << 40, {16, 1}), Error);
  EXPECT_THROW(Pattern::window(-2, 0), Error);
  EXPECT_THROW(Pattern::block_diagonal(0), Error);
  EXPECT_THROW(Pattern::predicate("empty", nullptr), Error);
  EXPECT_THROW(Pattern::full().shifted(0, -1), Error);
  EXPECT_THROW(Pattern::full().shifted(std::int64_t{1} << 50, 0), Error);
}

TEST(Plan, TileSizesFollowThePattern) {
  EXPECT_EQ(tile_size_for<Device::cpu>(Pattern::full(), 4096, 4096), (TileSize{64, 64}));
  EXPECT_EQ(tile_size_for<Device::cpu>(Pattern::causal(), 4096, 4096), (TileSize{64, 64}));
  EXPECT_EQ(tile_size_for<Device::cpu>(Pattern::block_diagonal(64), 4096, 4096), (TileSize{64, 64}));
  EXPECT_EQ(tile_size_for<Device::cpu>(Pattern::window(256, 0), 8192, 8192), (TileSize{32, 32}));
  EXPECT_EQ(tile_size_for<Device::cpu>(Pattern::full(), 1, 4096).query, 16);
  EXPECT_GT(tile_size_for<Device::cpu>(Pattern::full(), 0, 0).query, 0);
}

// Opening and closing by the band reaches every query block once, never before its keys or after them.
TEST(Band, OpensBeforeTheFirstKeyAndClosesAfterTheLast) {
  for (const Pattern& pattern : patterns()) {
    const Plan plan = compile_plan(pattern, 61, 50, {4, 4});
    for (const Plan::Island& island : plan.islands) {
      const std::int32_t widest = Band::widest(plan, island);
      if (widest == 0) continue;
      Band band(plan, island);
      std::int32_t open = island.query_begin, closed = island.query_begin;
      for (std::int32_t key = island.key_begin; key < island.key_end; ++key) {
        const Band::Range opened = band.opens_at(key);
        EXPECT_EQ(opened.begin, open);
        open = opened.end;
        EXPECT_LE(open - closed, widest);
        for (const Plan::Entry& entry : plan.column(key)) {
          EXPECT_GE(entry.block, closed);
          EXPECT_LE(entry.block + entry.count, open);
        }
        const Band::Range complete = band.closes_at(key);
        EXPECT_EQ(complete.begin, closed);
        closed = complete.end;
      }
      EXPECT_EQ(closed, island.query_end) << pattern.text();
    }
  }
  const Plan window = compile_plan(Pattern::window(8, 0), 400, 400, {4, 4});
  EXPECT_EQ(Band::widest(window, window.islands[0]), 3);
}

TEST(Units, NarrowIslandsAreCutWithoutLosingARow) {
  const Plan plan = compile_plan(Pattern::window(16, 0), 800, 800, {8, 8});
  const Islands parts = cut_narrow(plan, 80);
  EXPECT_GT(parts.size(), 8u);
  std::int32_t row = 0;
  for (const Plan::Island& part : parts) {
    EXPECT_EQ(part.query_begin, row);
    row = part.query_end;
    EXPECT_LE((part.key_end - part.key_begin) * plan.tile_k, 80);
    for (std::int32_t block = part.query_begin; block < part.query_end; ++block)
      for (const Plan::Entry& entry : plan.row(block)) {
        EXPECT_GE(entry.block, part.key_begin);
        EXPECT_LE(entry.block + entry.count, part.key_end);
      }
  }
  EXPECT_EQ(row, plan.query_blocks());
  EXPECT_EQ(cut_narrow(compile_plan(Pattern::causal(), 800, 800, {8, 8}), 80).size(), 1u);
}

}  // namespace
}  // namespace fovea::tile
