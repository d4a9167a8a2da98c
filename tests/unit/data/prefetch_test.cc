#include "data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "data/labelled.h"
#include "support/expect_error.h"

namespace fovea {
namespace {

const Context kContext({.threads = 2, .seed = 3, .memory = {.poison = true}});

// Numbered examples; counts the batches made, and fails at one of them.
class Counting : public Split {
 public:
  explicit Counting(std::int64_t fail_at = -1) : fail_at_(fail_at) {}
  std::int64_t size() const override { return 10; }
  std::int64_t length(std::int64_t) const override { return 1; }
  std::uint64_t hash() const override { return 0; }
  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t draw) const override {
    if (made == fail_at_) fail(ErrorCode::bad_input, "a broken example");
    ++made;
    Batch batch;
    batch.examples.assign(picks.begin(), picks.end());
    batch.targets = Tensor::empty(context, {1}, DType::i32);
    batch.targets.data<std::int32_t>()[0] = static_cast<std::int32_t>(draw + context.seed());
    return batch;
  }

  mutable std::atomic<std::int64_t> made{0};

 private:
  std::int64_t fail_at_;
};

TEST(Prefetcher, GivesWhatTheIterationGives) {
  for (const std::size_t ahead : {0, 1, 3}) {
    const Counting split;
    Batches plain(split, {.batch_size = 4, .seed = 7});
    Prefetcher feed(kContext, split, plain, ahead);
    for (int i = 0; i < 12; ++i) {
      const Batch expected = plain.next(kContext);
      const Prefetcher::Item item = feed.next();
      EXPECT_EQ(item.batch.examples, expected.examples) << i;
      EXPECT_EQ(item.batch.targets.to_vector<std::int32_t>(), expected.targets.to_vector<std::int32_t>());
      EXPECT_EQ(item.after, plain.position());
    }
  }
}

TEST(Prefetcher, WorksAheadButNotEndlessly) {
  const Counting split;
  const Prefetcher feed(kContext, split, Batches(split, {.batch_size = 1}), 3);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (split.made < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(split.made, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(split.made, 3);
}

TEST(Prefetcher, HandsOnFailuresInTheirTurn) {
  const Counting split(2);
  Prefetcher feed(kContext, split, Batches(split, {.batch_size = 1}), 3);
  feed.next();
  feed.next();
  EXPECT_ERROR(feed.next(), ErrorCode::bad_input, "a broken example", "", "");
  EXPECT_ERROR(feed.next(), ErrorCode::bad_input, "a broken example", "", "");
}

}  // namespace
}  // namespace fovea
