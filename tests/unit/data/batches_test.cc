#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/labelled.h"
#include "support/expect_error.h"

namespace fovea {
namespace {

const Context kContext({.threads = 2, .memory = {.poison = true}});

// Example i has a length between 1 and 9, tokens i % 15 + 1, and the label i % 10.
std::shared_ptr<const Split> numbered(std::int64_t count) {
  std::vector<Example> set;
  for (std::int64_t i = 0; i < count; ++i)
    set.push_back(
        {std::vector<std::uint8_t>(static_cast<std::size_t>(1 + i * 7 % 9), static_cast<std::uint8_t>(1 + i % 15)),
         static_cast<int>(i % 10)});
  return labelled_split(std::move(set));
}

std::vector<std::int64_t> epoch_order(Batches& batches) {
  std::vector<std::int64_t> order;
  do {
    for (const std::int64_t i : batches.next(kContext).examples) order.push_back(i);
  } while (!batches.epoch_done());
  return order;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::int64_t> all(std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Batches, PacksExamplesEndToEnd) {
  const auto set = labelled_split({{{1, 2, 3}, 7}, {{4}, 0}, {{5, 6}, 9}});
  const Batch batch = set->batch(kContext, std::vector<std::int64_t>{2, 0}, 0);
  EXPECT_EQ(batch.input.ids.shape(), (Shape{1, 5}));
  EXPECT_EQ(batch.input.ids.to_vector<std::int32_t>(), (std::vector<std::int32_t>{5, 6, 1, 2, 3}));
  EXPECT_EQ(batch.input.rows.cu_seqlens, (std::vector<std::int32_t>{0, 2, 5}));
  EXPECT_TRUE(batch.input.rows.lengths.empty());
  EXPECT_EQ(batch.targets.to_vector<std::int32_t>(), (std::vector<std::int32_t>{9, 7}));
  EXPECT_EQ(batch.examples, (std::vector<std::int64_t>{2, 0}));
}

// No example is lost or repeated, whatever sizes meet.
TEST(Batches, EveryEpochHasEveryExampleOnce) {
  for (const std::int64_t count : {1, 7, 32, 33, 101})
    for (const std::int64_t batch_size : {1, 4, 33, 200})
      for (const std::int64_t window : {0, 1, 3, 1000}) {
        const auto set = numbered(count);
        Batches batches(*set, {.batch_size = batch_size, .seed = 3, .window = window});
        const std::vector<std::int64_t> first = epoch_order(batches), second = epoch_order(batches);
        EXPECT_EQ(sorted(first), all(count));
        EXPECT_EQ(sorted(second), all(count));
        EXPECT_EQ(batches.position(), (BatchPosition{1, count}));
        if (count > 7) {
          EXPECT_NE(first, all(count));
          EXPECT_NE(first, second);
        }
      }
}

TEST(Batches, OrderDependsOnSeedAlone) {
  const auto set = numbered(50);
  const auto order = [&](std::uint64_t seed) {
    Batches batches(*set, {.batch_size = 8, .seed = seed});
    return epoch_order(batches);
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Batches, WithoutShuffleKeepsTheOrder) {
  const auto set = numbered(10);
  Batches batches(*set, {.batch_size = 4, .shuffle = false, .window = 2});
  EXPECT_EQ(epoch_order(batches), all(10));
  EXPECT_EQ(batches.batches_per_epoch(), 3);
}

TEST(Batches, ResumesAnywhere) {
  const auto set = numbered(45);
  const BatchOptions options = {.batch_size = 8, .seed = 11, .window = 2};
  Batches whole(*set, options);
  for (int step = 0; step < 20; ++step) {
    Batches resumed(*set, options, whole.position());
    const Batch expected = whole.next(kContext), got = resumed.next(kContext);
    EXPECT_EQ(got.examples, expected.examples) << "step " << step;
    EXPECT_EQ(resumed.position(), whole.position());
  }
}

TEST(Batches, WindowsGatherSimilarLengths) {
  const auto set = numbered(900);
  const auto padding = [&](std::int64_t window) {
    Batches batches(*set, {.batch_size = 10, .seed = 1, .window = window});
    std::int64_t padded = 0;
    do {
      const BatchPlan plan = batches.plan();
      std::int64_t longest = 0;
      for (const std::int64_t i : plan.examples) longest = std::max(longest, set->length(i));
      padded += longest * std::ssize(plan.examples);
    } while (!batches.epoch_done());
    return padded;
  };
  EXPECT_LT(static_cast<double>(padding(30)), 0.75 * static_cast<double>(padding(0)));
}

TEST(Batches, LimitTakesTheFirstExamples) {
  const auto set = numbered(20);
  Batches batches(*set, {.batch_size = 4, .seed = 3, .limit = 7});
  EXPECT_EQ(sorted(epoch_order(batches)), all(7));
}

// Two batches never share the number their random choices depend on, within an epoch or across.
TEST(Batches, DrawsDiffer) {
  const auto set = numbered(11);
  Batches batches(*set, {.batch_size = 4});
  std::vector<std::uint64_t> draws;
  for (int i = 0; i < 9; ++i) draws.push_back(batches.plan().draw);
  std::sort(draws.begin(), draws.end());
  EXPECT_EQ(std::adjacent_find(draws.begin(), draws.end()), draws.end());
}

TEST(Batches, RefusesWhatCannotWork) {
  const auto set = numbered(5), none = numbered(0);
  EXPECT_ERROR(Batches(*none, {}), ErrorCode::bad_input, "no examples", "", "");
  EXPECT_ERROR(labelled_split({{{1}, 0}, {{}, 0}}), ErrorCode::bad_input, "example 1 has no tokens", "", "");
  EXPECT_ERROR(Batches(*set, {.batch_size = 0}), ErrorCode::usage, "at least 1", "batch_size", "");
  EXPECT_ERROR(Batches(*set, {}, {0, 6}), ErrorCode::bad_input, "cannot be resumed at example 6", "position",
               "5 examples");
}

}  // namespace
}  // namespace fovea
