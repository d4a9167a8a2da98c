// What is uploaded of a plan: every own tile once, every block that it reads in exactly one part, slots and flags that
// nobody else has.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>
#include <tuple>

#include "fovea/pattern.h"
#include "gpu/host/made_up_cards.h"
#include "tile/cuda/schedule.h"

namespace fovea::tile::cuda {
namespace {

using fovea::testing::Machine;

// (piece, own tile, streamed block)
using Triple = std::tuple<std::int32_t, std::int32_t, std::int32_t>;

class Plans : public ::testing::TestWithParam<std::pair<const char*, Pattern>> {
 protected:
  Plans() { Machine::instance().reset(); }

  void make(std::vector<std::int64_t> lengths, std::int64_t heads) {
    plans_.clear();
    std::vector<Piece> pieces;
    for (const std::int64_t n : lengths) {
      plans_.push_back(std::make_shared<const Plan>(compile_plan(GetParam().second, n, n, kTile)));
      pieces.push_back({.batch = std::ssize(pieces), .nq = n, .nk = n, .plan = plans_.back().get()});
    }
    Problem problem;
    problem.heads = problem.kv_heads = heads;
    problem.pieces = pieces;
    schedule_ = schedule_for(problem);
  }

  // What the plan says, by pairs of blocks where group is 1.
  std::set<Triple> wanted(bool by_rows, int group) const {
    std::set<Triple> all;
    for (std::size_t p = 0; p < plans_.size(); ++p) {
      const Plan& plan = *plans_[p];
      const std::int64_t blocks = by_rows ? plan.query_blocks() : plan.key_blocks();
      for (std::int64_t i = 0; i < blocks; ++i)
        for (const Plan::Entry& e : by_rows ? plan.row(i) : plan.column(i))
          for (std::int32_t b = e.block; b < e.block + e.count; ++b)
            all.insert({static_cast<std::int32_t>(p), static_cast<std::int32_t>(i >> group), b});
    }
    return all;
  }

  // What the items of a list read, from the lists that were uploaded: a block twice is an error.
  std::set<Triple> read(std::span<const Item> items, bool by_rows, int group) const {
    std::set<Triple> all;
    for (const Item& item : items) {
      const PieceView& piece = schedule_->pieces[item.piece];
      const ListView& list = (by_rows ? piece.rows : piece.columns)[group];
      std::int32_t left = item.blocks, skip = item.skip;
      for (std::int32_t e = item.begin; left > 0; ++e) {
        EXPECT_LT(e, list.start[item.tile + 1]) << "beyond its own list";
        const ListView::Entry& entry = list.entries[e];
        for (std::int32_t b = entry.block + skip; b < entry.block + entry.count && left > 0; ++b, --left)
          EXPECT_TRUE(all.insert({item.piece, item.tile, b}).second) << "a block is read twice";
        skip = 0;
      }
    }
    return all;
  }

  void check_parts(const Schedule::Items& items) const {
    std::set<std::int32_t> slots, flags;
    std::map<std::pair<std::int32_t, std::int32_t>, std::set<std::int32_t>> slots_of;
    for (const Item& part : std::span(items.parts, static_cast<std::size_t>(items.part_count))) {
      EXPECT_EQ(part.flags, 1);
      EXPECT_TRUE(flags.insert(part.flag).second) << "two parts share a flag";
      if (part.slot < 0) continue;
      EXPECT_TRUE(slots.insert(part.slot).second) << "two parts share a slot";
      slots_of[{part.piece, part.tile}].insert(part.slot);
    }
    EXPECT_EQ(std::ssize(slots), items.slots);
    EXPECT_EQ(std::ssize(slots_of), items.merge_count);
    for (const Merge& merge : std::span(items.merges, static_cast<std::size_t>(items.merge_count))) {
      std::set<std::int32_t> own;
      for (std::int32_t i = 0; i < merge.parts; ++i) own.insert(merge.slot + i);
      EXPECT_EQ(own, (slots_of[{merge.piece, merge.tile}]));
    }
  }

  std::vector<std::shared_ptr<const Plan>> plans_;
  std::shared_ptr<const Schedule> schedule_;
};

TEST_P(Plans, AreWholeOnTheCard) {
  for (const std::int64_t heads : {1, 16})
    for (const auto& lengths : {std::vector<std::int64_t>{4100}, {65, 1, 700}, {64, 64, 64}}) {
      make(lengths, heads);
      for (const bool by_rows : {true, false})
        for (int group = 0; group < 2; ++group) {
          SCOPED_TRACE(std::to_string(lengths.front()) + (by_rows ? " by rows " : " by columns ") +
                       std::to_string(group));
          const Schedule::Items& items = (by_rows ? schedule_->by_rows : schedule_->by_columns)[group];
          const std::set<Triple> all = wanted(by_rows, group);
          EXPECT_EQ(read({items.data, static_cast<std::size_t>(items.count)}, by_rows, group), all);
          EXPECT_EQ(read({items.parts, static_cast<std::size_t>(items.part_count)}, by_rows, group), all);
          check_parts(items);
        }
    }
}

// Long lists are cut where one head would leave the card idle.
TEST_P(Plans, AreFoundAgainAndCutWhereListsAreLong) {
  make({4100}, 1);
  const auto first = schedule_;
  EXPECT_EQ(first->by_rows[0].merge_count > 0, std::string(GetParam().first) != "window");
  const std::vector<Piece> same{{.nq = 4100, .nk = 4100, .plan = plans_[0].get()}};
  Problem problem;
  problem.heads = problem.kv_heads = 1;
  problem.pieces = same;
  EXPECT_EQ(schedule_for(problem), first);
  Machine::instance().current = 1;
  EXPECT_NE(schedule_for(problem), first) << "another card has a copy of its own";
}

INSTANTIATE_TEST_SUITE_P(Patterns, Plans,
                         ::testing::Values(std::pair{"full", Pattern::full()}, std::pair{"causal", Pattern::causal()},
                                           std::pair{"window", Pattern::window(100, 30)},
                                           std::pair{"comb", Pattern::comb(200, 0, 3)}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace fovea::tile::cuda
