// Training on a card: as on the CPU within rounding, and with the same bits whether steps are recorded or not.

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/support/card.h"
#include "support/names.h"
#include "support/recorded_cases.h"

namespace fovea::testing {
namespace {

using When = RecordedSteps::When;

class CardTraining : public ::testing::TestWithParam<RecordedCase> {
 protected:
  static RecordedRun run(Context context, std::int64_t steps, When when) {
    return run_steps(GetParam(), context, steps, when);
  }
};

TEST_P(CardTraining, RecordedStepsHaveTheBitsOfOthers) {
  constexpr std::int64_t kSteps = 6;
  const RecordedRun plain = run(poisoned_card(), kSteps, When::never),
                    recorded = run(poisoned_card(), kSteps, When::where_it_pays);
  EXPECT_EQ(recorded.numbers, plain.numbers) << recorded.news;
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_EQ(plain.counts.run, kSteps);
  EXPECT_EQ(recorded.counts.played, GetParam().refused.empty() ? kSteps - 1 : 0) << recorded.news;
  EXPECT_NE(recorded.news.find(GetParam().refused), std::string::npos) << recorded.news;
}

INSTANTIATE_TEST_SUITE_P(Models, CardTraining, ::testing::ValuesIn(recorded_cases()), kNamedAsPrinted);

class CardLosses : public CardTraining {};

// Rounding errors grow from step to step; AdamW makes whole steps of the smallest gradients.
TEST_P(CardLosses, OfFiftyStepsAreThoseOfTheHost) {
  constexpr std::int64_t kSteps = 50;
  const RecordedRun there =
                        run(Context({.threads = 2, .seed = 7, .device = Device::cuda}), kSteps, When::where_it_pays),
                    here = run(Context({.threads = 2, .seed = 7}), kSteps, When::never);
  double largest = 0.0;
  for (std::size_t i = 0; i < here.numbers.size(); i += 3)
    largest =
        std::fmax(largest, std::fabs(there.numbers[i] - here.numbers[i]) / std::fmax(1.0, std::fabs(here.numbers[i])));
  std::cout << "    losses differ by " << largest << ", " << there.counts.played << " steps played\n";
  EXPECT_LT(largest, 2e-3);
}

std::vector<RecordedCase> family_cases() {
  std::vector<RecordedCase> cases = recorded_cases();
  cases.resize(families::names().size());
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, CardLosses, ::testing::ValuesIn(family_cases()), kNamedAsPrinted);

TEST(CardSteps, PlayedOnesReadOnceAndTakeNoMemory) {
  Context context = poisoned_card();
  const Context host({.threads = 2, .seed = 7});
  const ModelConfig config = families::family("transformer", DType::f32);
  Model model(context, config);
  const TrainConfig train;
  Stepper stepper(context, model, train);
  std::size_t used = 0;
  for (std::int64_t step = 1; step <= 5; ++step) {
    const Batch batch = to_device(context, families::random_batch(host, config, static_cast<std::uint64_t>(step)));
    StepReport report;
    report.step = step;
    memory_of(context).reset_counts();
    stepper.step(std::span(&batch, 1), 1e-3, report);
    EXPECT_EQ(memory_of(context).reads(), 1) << step;
    EXPECT_EQ(report.replayed, step > 1) << stepper.recorded().news();
    if (step > 2) {
      EXPECT_EQ(stepper.recorded().peak(), used);
    }
    used = stepper.recorded().peak();
  }
}

TEST(CardSteps, ANaNInAPlayedOneIsNamed) {
  Context context = poisoned_card();
  const Context host({.threads = 2, .seed = 7});
  const ModelConfig config = families::family("transformer", DType::f32);
  Model model(context, config);
  const TrainConfig train;
  Stepper stepper(context, model, train);
  const auto step = [&](std::int64_t number) {
    const Batch batch = families::random_batch(host, config, static_cast<std::uint64_t>(number));
    StepReport report;
    report.step = number;
    stepper.step(std::span(&batch, 1), 1e-3, report);
  };
  for (std::int64_t i = 1; i <= 3; ++i) step(i);
  for (const Parameter& p : model.parameters())
    if (p.name == "layers.1.attention.out.weight") p.var.value().fill(NAN);
  const auto before = model.parameters()[0].var.value().to_vector<float>();
  try {
    step(4);
    FAIL() << "diverged and went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::diverged);
    EXPECT_NE(error.message().find("model.layers[1].attention"), std::string::npos) << error.message();
  }
  EXPECT_EQ(model.parameters()[0].var.value().to_vector<float>(), before);
}

TEST(CardMemoryLimit, IsObeyedAndNamed) {
  const Context context({.threads = 2, .device = Device::cuda, .memory = {.limit = std::size_t{64} << 20}});
  try {
    const Tensor half = Tensor::empty(context, {10 << 20}, DType::f32), rest = Tensor::empty(context, {10 << 20});
    FAIL() << "more than the limit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(error.message().find("limit 64 MB"), std::string::npos) << error.message();
  }
  const Tensor small = Tensor::zeros(context, {16});
  EXPECT_EQ(small.to_vector<float>(), std::vector<float>(16, 0.0f));
}

TEST(CardMemoryLimit, MoreThanTheCardHasIsRefusedAndTheRestWorks) {
  const Context context({.threads = 2, .device = Device::cuda});
  const auto all = static_cast<std::int64_t>(context.memory()->size());
  std::vector<Tensor> held;
  try {
    for (int i = 0; i < 4; ++i) held.push_back(Tensor::empty(context, {all / 3}, DType::u8));
    FAIL() << "more than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(error.message().find("asked for"), std::string::npos) << error.message();
    EXPECT_FALSE(error.hint().empty());
  }
  held.clear();
  EXPECT_EQ(Tensor::zeros(context, {16}).to_vector<float>(), std::vector<float>(16, 0.0f));
}

}  // namespace
}  // namespace fovea::testing
