#include "data/text/language.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/batches.h"
#include "support/expect_error.h"
#include "support/tensors.h"

namespace fovea {
namespace {

const Context kContext({.threads = 2, .seed = 5, .memory = {.poison = true}});

// 0, 1, 2, ...: a token tells its place.
std::shared_ptr<const TokenSource> counted(std::int64_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return std::make_shared<TokenList>(std::move(ids));
}

using Ids = std::vector<std::int32_t>;
Ids ids_of(const Batch& batch) { return batch.input.ids.to_vector<std::int32_t>(); }
Ids targets_of(const Batch& batch) { return batch.targets.to_vector<std::int32_t>(); }

TEST(Language, TargetsAreTheNextTokens) {
  const auto split = language_split(counted(9), {.length = 4});
  ASSERT_EQ(split->size(), 2);
  const Batch batch = split->batch(kContext, std::vector<std::int64_t>{1, 0}, 3);
  EXPECT_EQ(batch.input.ids.shape(), (Shape{2, 4}));
  EXPECT_TRUE(batch.input.rows.empty());
  EXPECT_EQ(ids_of(batch), (Ids{4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(targets_of(batch), (Ids{5, 6, 7, 8, 1, 2, 3, 4}));
}

// Whatever the sizes, evaluation asks for every token but the first exactly once.
TEST(Language, EvaluationAsksForEveryTokenOnce) {
  for (const std::int64_t count : {2, 3, 5, 8, 9, 10, 31})
    for (const std::int64_t length : {1, 2, 4, 7, 40}) {
      const auto split = language_split(counted(count), {.length = length});
      Batches batches(*split, {.batch_size = 3, .shuffle = false});
      Ids asked;
      do {
        const Batch batch = batches.next(kContext);
        const Ids ids = ids_of(batch), targets = targets_of(batch);
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (targets[i] < 0) continue;
          EXPECT_EQ(targets[i], ids[i] + 1);
          asked.push_back(targets[i]);
        }
      } while (!batches.epoch_done());
      std::sort(asked.begin(), asked.end());
      Ids all(static_cast<std::size_t>(count - 1));
      std::iota(all.begin(), all.end(), 1);
      EXPECT_EQ(asked, all) << count << " tokens, length " << length;
    }
}

TEST(Language, TrainingWindowsBeginElsewhereEachTime) {
  const auto split = language_split(counted(1000), {.length = 50, .training = true});
  const std::vector<std::int64_t> picks{0, 7, split->size() - 1};
  std::set<std::int32_t> first;
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    const Ids ids = ids_of(split->batch(kContext, picks, draw)), again = ids_of(split->batch(kContext, picks, draw));
    EXPECT_EQ(ids, again);
    EXPECT_LT(ids[0], 50);
    EXPECT_EQ(ids[50], ids[0] + 350);
    EXPECT_LE(ids.back(), 998);
    first.insert(ids[0]);
  }
  EXPECT_GT(first.size(), 10u);
}

TEST(Language, ShortTextsAreShortWindows) {
  EXPECT_EQ(language_split(counted(0), {.length = 4})->size(), 0);
  EXPECT_EQ(language_split(counted(1), {.length = 4})->size(), 0);
  const auto split = language_split(counted(3), {.length = 4, .training = true});
  ASSERT_EQ(split->size(), 1);
  EXPECT_EQ(ids_of(split->batch(kContext, std::vector<std::int64_t>{0}, 1)), (Ids{0, 1}));
  EXPECT_ERROR(language_split(counted(3), {.length = 0}), ErrorCode::usage, "at least one token", "length", "");
}

TEST(Language, HashesDiffer) {
  const auto hash = [](std::int64_t count, std::int64_t length) {
    return language_split(counted(count), {.length = length})->hash();
  };
  EXPECT_EQ(hash(100, 4), hash(100, 4));
  EXPECT_NE(hash(100, 4), hash(101, 4));
  EXPECT_NE(hash(100, 4), hash(100, 5));
}

constexpr std::int32_t kMask = 99, kSpecial = 3;

LanguageOptions masked(bool training) {
  return {.length = 500,
          .masking = Masking{.mask = kMask, .vocabulary = 100, .special = {kMask, kSpecial}},
          .training = training};
}

// 20000 tokens from 0 to 89; every tenth is special.
std::shared_ptr<const TokenSource> mixed() {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 20000; ++i)
    ids.push_back(i % 10 == 0 ? kSpecial : i * 7 % 90 == kSpecial ? 4 : i * 7 % 90);
  return std::make_shared<TokenList>(std::move(ids));
}

TEST(Masking, HasTheSharesOfRoberta) {
  const auto split = language_split(mixed(), masked(false));
  std::vector<std::int64_t> all(static_cast<std::size_t>(split->size()));
  std::iota(all.begin(), all.end(), 0);
  const Batch batch = split->batch(kContext, all, 0);
  const Ids ids = ids_of(batch), targets = targets_of(batch);
  Ids original(ids.size());
  mixed()->copy(0, original);
  double asked = 0, masks = 0, kept = 0, other = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (targets[i] < 0) {
      EXPECT_EQ(ids[i], original[i]);
      continue;
    }
    EXPECT_EQ(targets[i], original[i]);
    EXPECT_NE(original[i], kSpecial);
    EXPECT_NE(ids[i], kSpecial);
    ++asked;
    ++(ids[i] == kMask ? masks : ids[i] == original[i] ? kept : other);
  }
  const double maskable = 18000;  // deviations of these shares: 0.003, 0.008
  EXPECT_NEAR(asked / maskable, 0.15, 0.012);
  EXPECT_NEAR(masks / asked, 0.8, 0.03);
  EXPECT_NEAR(other / asked, 0.1, 0.025);
  EXPECT_NEAR(kept / asked, 0.1, 0.025);
}

TEST(Masking, IsDrawnAnewInTrainingAndKeptInEvaluation) {
  const std::vector<std::int64_t> picks{2};
  const auto train = language_split(mixed(), masked(true)), test = language_split(mixed(), masked(false));
  EXPECT_NE(targets_of(train->batch(kContext, picks, 1)), targets_of(train->batch(kContext, picks, 2)));
  EXPECT_EQ(targets_of(test->batch(kContext, picks, 1)), targets_of(test->batch(kContext, picks, 2)));
}

// So that no batch is without a loss.
TEST(Masking, AsksForSomethingInEveryWindow) {
  LanguageOptions options = masked(false);
  options.length = 2;
  const auto split = language_split(mixed(), options);
  for (std::int64_t pick = 0; pick < 200; ++pick) {
    const Ids targets = targets_of(split->batch(kContext, std::span(&pick, 1), 0));
    EXPECT_GE(std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; }), 1);
  }
  options.masking->vocabulary = 2;
  EXPECT_ERROR(language_split(mixed(), options), ErrorCode::usage, "every token is special", "masking", "");
}

}  // namespace
}  // namespace fovea
