#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/data.h"

namespace fovea {
namespace {

DataSettings generated(const char* source) {
  DataSettings settings;
  settings.source = source;
  settings.train = 12;
  settings.validation = settings.test = 4;
  if (settings.source == "listops") settings.length = 64;
  return settings;
}

// What is asked for is what was there; all else is as it was. Returns how many are asked for.
std::int64_t check_masks(const Batch& plain, const Batch& masked, std::int32_t mask) {
  EXPECT_EQ(masked.targets.shape(), plain.input.ids.shape());
  const auto was = plain.input.ids.to_vector<std::int32_t>(), is = masked.input.ids.to_vector<std::int32_t>(),
             asked = masked.targets.to_vector<std::int32_t>();
  std::int64_t count = 0, replaced = 0;
  for (std::size_t i = 0; i < was.size(); ++i) {
    if (asked[i] < 0) {
      EXPECT_EQ(is[i], was[i]);
      continue;
    }
    EXPECT_EQ(asked[i], was[i]);
    ++count;
    replaced += is[i] == mask ? 1 : 0;
  }
  EXPECT_GT(replaced, count / 2);
  EXPECT_LT(count, std::ssize(was) / 3);
  return count;
}

TEST(MaskedInputs, OfLabelledSequences) {
  const Context context({.threads = 1, .seed = 3});
  for (const char* source : {"listops", "pathfinder"}) {
    SCOPED_TRACE(source);
    const Dataset labelled = load_data(context, generated(source)),
                  inputs = load_data(context, generated(source), {.task = Task::mlm});
    EXPECT_EQ(inputs.task, Task::mlm);
    EXPECT_EQ(inputs.classes, 0);
    EXPECT_EQ(inputs.vocabulary, labelled.vocabulary + 1);
    const auto mask = static_cast<std::int32_t>(labelled.vocabulary);
    const std::vector<std::int64_t> picks = {2, 0, 3};
    const Batch plain = labelled.train->batch(context, picks, 7), masked = inputs.train->batch(context, picks, 7);
    EXPECT_GE(check_masks(plain, masked, mask), std::ssize(picks));
    EXPECT_EQ(masked.examples, picks);
    // Training: other masks every time. Validation: always the same, in whatever company.
    EXPECT_NE(inputs.train->batch(context, picks, 8).targets.to_vector<std::int32_t>(),
              masked.targets.to_vector<std::int32_t>());
    EXPECT_EQ(inputs.validation->batch(context, picks, 1).targets.to_vector<std::int32_t>(),
              inputs.validation->batch(context, picks, 2).targets.to_vector<std::int32_t>());
    const std::int64_t alone[] = {3};
    const auto one = inputs.validation->batch(context, alone, 5).targets.to_vector<std::int32_t>(),
               three = inputs.validation->batch(context, picks, 5).targets.to_vector<std::int32_t>();
    EXPECT_TRUE(std::equal(one.rbegin(), one.rend(), three.rbegin()));
  }
}

}  // namespace
}  // namespace fovea
