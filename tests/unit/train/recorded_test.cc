// Steps that are recorded and played again: the bits of those that are not, on any batch of the shape. On the CPU a
// recording is the function itself, so what a card would find unchanged from play to play is looked at here.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "support/expect_error.h"
#include "support/fenced_memory.h"
#include "support/names.h"
#include "support/recorded_cases.h"
#include "tensor/feed.h"

namespace fovea::testing {
namespace {

using When = RecordedSteps::When;

// Remembers what the host wrote while a step was recorded, but for what it was fed: on a card that stays as it was.
class NotingMemory : public FencedMemory {
 public:
  void write(void* to, const void* host, std::size_t bytes) override {
    if (const Recording* recording = Recording::current(); recording != nullptr && !recording->is_feeding()) {
      const auto* begin = static_cast<const std::byte*>(host);
      noted.emplace_back(begin, begin + bytes);
    }
    FencedMemory::write(to, host, bytes);
  }
  void read(void* host, const void* from, std::size_t bytes) override {
    Recording::refuse("the host waits for a number");
    FencedMemory::read(host, from, bytes);
  }

  std::vector<std::vector<std::byte>> noted;
};

class RecordedStepsTest : public ::testing::TestWithParam<RecordedCase> {
 protected:
  static constexpr std::int64_t kSteps = 4;

  RecordedRun run(When when) {
    const auto memory = std::make_shared<NotingMemory>();
    Context context({.threads = 2, .seed = 7, .memory = {.poison = true}, .pages = memory});
    noted_.clear();
    return run_steps(GetParam(), context, kSteps, when, [&] { noted_.push_back(std::exchange(memory->noted, {})); });
  }

  std::vector<std::vector<std::vector<std::byte>>> noted_;  // by each step
};

TEST_P(RecordedStepsTest, HaveTheBitsOfOthersAndAreToldOnlyWhatTheyAreFed) {
  const RecordedRun plain = run(When::never), recorded = run(When::always);
  EXPECT_EQ(recorded.numbers, plain.numbers);
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_EQ(plain.counts.run, kSteps);
  if (!GetParam().refused.empty()) {
    EXPECT_NE(recorded.news.find(GetParam().refused), std::string::npos) << recorded.news;
    EXPECT_EQ(recorded.counts.played, 0);
    return;
  }
  EXPECT_EQ(recorded.counts.run, 1) << recorded.news;
  EXPECT_EQ(recorded.counts.played, kSteps - 1) << recorded.news;
  EXPECT_EQ(noted_[1], noted_[2]);
  EXPECT_EQ(noted_[1], noted_[3]);
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedStepsTest, ::testing::ValuesIn(recorded_cases()), kNamedAsPrinted);

// What is fed is brought before the whole recording plays. Memory that it has used before it takes what is fed, or that
// it uses again behind, would hold something else by then.
TEST(Feeds, HaveMemoryThatTheRestOfARecordingIsNeverGiven) {
  const Context context({.threads = 1}), source({.threads = 1});
  std::set<const void*> used, fed;
  const auto use = [&] { used.insert(Tensor::empty(context, {16}).data<float>()); };
  const auto recording = Recording::make(*context.memory(), [&] {
    for (int i = 0; i < 3; ++i) {
      use();
      const Tensor told = feed(context, [&] { return Tensor::zeros(source, {16}); });
      fed.insert(told.data<float>());
    }
    use();
  });
  ASSERT_TRUE(recording->play(0));
  EXPECT_EQ(fed.size(), 3);
  for (const void* block : fed) EXPECT_FALSE(used.contains(block));
}

// What a recording is asked to do with sequences of other lengths, and with wrong ones.
class RecordedShapes : public ::testing::Test {
 protected:
  Batch batch(const std::vector<std::int64_t>& lengths) {
    Random random(seed_++, 5);
    Batch batch;
    batch.input = families::random_input(context_, random, lengths);
    batch.targets = families::random_targets(context_, random, std::ssize(lengths), families::kClasses);
    batch.examples.resize(lengths.size());
    return batch;
  }
  void step(const Batch& batch) {
    StepReport report;
    report.step = ++step_;
    stepper_.step(std::span(&batch, 1), 1e-3, report);
  }
  const RecordedSteps::Counts& counts() { return stepper_.recorded().counts(); }

  Context context_{{.threads = 2, .seed = 7}};
  Model model_{context_, families::family("transformer", DType::f32)};
  TrainConfig config_;
  Stepper stepper_{context_, model_, config_, When::always};
  std::uint64_t seed_ = 1;
  std::int64_t step_ = 0;
};

TEST_F(RecordedShapes, EachLayoutHasARecordingOfItsOwn) {
  for (int round = 0; round < 3; ++round)
    for (const auto& lengths : {std::vector<std::int64_t>{5, 9, 2}, {9, 5, 2}, {4, 4}}) step(batch(lengths));
  EXPECT_EQ(counts().run, 3);
  EXPECT_EQ(counts().recorded, 3);
  EXPECT_EQ(counts().played, 6);
}

TEST_F(RecordedShapes, ManyLayoutsTakeTurns) {
  for (int round = 0; round < 3; ++round)
    for (std::int64_t n = 1; n <= 9; ++n) step(batch({n, 9}));
  EXPECT_EQ(counts().run, 9);
  EXPECT_GT(counts().recorded, 9) << "nine do not fit";
}

TEST_F(RecordedShapes, AWrongTokenIsFoundAndNamed) {
  for (int i = 0; i < 2; ++i) step(batch({3, 4}));
  Batch wrong = batch({3, 4});
  wrong.input.ids.data<std::int32_t>()[5] = 99;
  EXPECT_ERROR(step(wrong), ErrorCode::bad_input, "token 99 outside the vocabulary 0 .. 10",
               "model.batch.sequences[1], position 2", "");
  wrong = batch({3, 4});
  wrong.targets.data<std::int32_t>()[1] = -7;
  EXPECT_ERROR(step(wrong), ErrorCode::bad_input, "target -7 of row 1 is not one of 3 classes", "model.targets[1]", "");
  step(batch({3, 4}));
  EXPECT_EQ(counts().played, 2);
}

TEST_F(RecordedShapes, AnObserverSeesEveryStep) {
  TapeObserver none;
  stepper_.set_observer(none);
  for (int i = 0; i < 3; ++i) step(batch({3, 4}));
  EXPECT_EQ(counts().run, 3);
  EXPECT_EQ(stepper_.recorded().news(), "steps are not recorded: an observer watches");
}

// Ctrl-C while a step is being recorded leaves half of it, which the next one makes anew.
class InterruptedMemory : public FencedMemory {
 public:
  void write(void* to, const void* host, std::size_t bytes) override {
    if (left > 0 && --left == 0) fail(ErrorCode::interrupted, "stopped before the end");
    FencedMemory::write(to, host, bytes);
  }
  int left = 0;  // writes until then; 0: never
};

TEST(Recordings, ThatAreInterruptedAreMadeAnew) {
  const auto run = [](When when, int writes) {
    const auto memory = std::make_shared<InterruptedMemory>();
    Context context({.threads = 2, .seed = 7, .pages = memory}), host({.threads = 2, .seed = 7});
    const ModelConfig config = families::family("transformer", DType::f32);
    Model model(context, config);
    TrainConfig train;
    Stepper stepper(context, model, train, when);
    std::vector<double> numbers;
    for (std::int64_t step = 1; step <= 4; ++step) {
      const Batch batch = to_device(context, families::random_batch(host, config, static_cast<std::uint64_t>(step)));
      StepReport report;
      report.step = step;
      if (step == 2) memory->left = writes;
      try {
        stepper.step(std::span(&batch, 1), 1e-3, report);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::interrupted);
        memory->left = 0;
        stepper.forget_gradients();
        stepper.step(std::span(&batch, 1), 1e-3, report = {.step = step});
      }
      numbers.insert(numbers.end(), {report.loss, report.gradient_norm});
    }
    EXPECT_EQ(stepper.recorded().counts().played, when == When::always ? 3 : 0);
    for (const Parameter& p : model.parameters())
      for (const double weight : p.var.value().to_vector<double>()) numbers.push_back(weight);
    return numbers;
  };
  const std::vector<double> plain = run(When::never, 0);
  for (const int writes : {1, 2, 3}) EXPECT_EQ(run(When::always, writes), plain) << "interrupted at write " << writes;
}

// What is not finite, on its way forward or back, is named as it is where nothing is recorded.
using Weights = std::map<std::string, float>;

std::string name_of_fault(When when, const Weights& bad) {
  Context context({.threads = 2, .seed = 7, .pages = std::make_shared<FencedMemory>()}),
      host({.threads = 2, .seed = 7});
  ModelConfig config = families::family("transformer", DType::f32);
  config.dropout = config.inner_dropout = 0.1;
  Model model(context, config);
  TrainConfig train;
  Stepper stepper(context, model, train, when);
  for (std::int64_t step = 1; step <= 4; ++step) {
    const Batch batch = to_device(context, families::random_batch(host, config, static_cast<std::uint64_t>(step)));
    StepReport report;
    report.step = step;
    std::size_t set = 0;
    for (const Parameter& p : model.parameters())
      if (const auto found = bad.find(p.name); step == 4 && found != bad.end())
        p.var.value().fill(found->second), ++set;
    EXPECT_EQ(set, step == 4 ? bad.size() : 0);
    try {
      stepper.step(std::span(&batch, 1), 1e-3, report);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::diverged);
      EXPECT_EQ(error.where(), "step 4");
      EXPECT_EQ(stepper.recorded().counts().recorded, when == When::always ? 1 : 0);
      return error.message();
    }
  }
  return "nothing was found";
}

TEST(Recordings, NameWhatIsNotFiniteAsOtherStepsDo) {
  const Weights forward{{"layers.1.attention.out.weight", NAN}};
  // Nothing passes this layer, and no gradient of what would: too large for f32.
  const Weights back{{"layers.1.feed_forward.in.weight", 0.0f}, {"layers.1.feed_forward.out.weight", 3e38f}};
  for (const auto& [bad, place, what] : {std::tuple{forward, "model.layers[1].attention", ": not finite: the result"},
                                         {back, "model.layers[1].feed_forward", ": not finite: a gradient"}}) {
    const std::string recorded = name_of_fault(When::always, bad);
    EXPECT_EQ(recorded, name_of_fault(When::never, bad));
    EXPECT_NE(recorded.find(std::string("training diverged: ") + place), std::string::npos) << recorded;
    EXPECT_NE(recorded.find(what), std::string::npos) << recorded;
  }
}

TEST_F(RecordedShapes, NaNInAPlayedStepIsFoundWhereItArose) {
  for (int i = 0; i < 3; ++i) step(batch({3, 4}));
  for (const Parameter& p : model_.parameters())
    if (p.name == "layers.1.attention.out.weight") p.var.value().fill(NAN);
  const auto before = model_.parameters()[0].var.value().to_vector<float>();
  try {
    step(batch({3, 4}));
    FAIL() << "diverged and went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::diverged);
    EXPECT_NE(error.message().find("model.layers[1].attention"), std::string::npos) << error.message();
  }
  EXPECT_EQ(model_.parameters()[0].var.value().to_vector<float>(), before);
}

}  // namespace
}  // namespace fovea::testing
