// Training on a device whose memory the host cannot touch: the losses and weights of the host, bit for bit, and one
// read-back a step.

#include <gtest/gtest.h>

#include "data/batches.h"
#include "support/families.h"
#include "support/fenced_memory.h"
#include "support/names.h"
#include "support/tiny_run.h"
#include "train/stepper.h"

namespace fovea::testing {
namespace {

struct DeviceCase {
  std::string name;
  ModelConfig config;
  std::int64_t parts = 1;  // of a batch
};
void PrintTo(const DeviceCase& c, std::ostream* out) { *out << c.name; }

// Two steps and an evaluation of a model; how often each read from the memory.
struct Steps {
  std::vector<double> numbers;  // losses, accuracies, norms
  std::vector<std::vector<double>> weights, averages;
  std::vector<int> reads;
};

class TrainingOnDevice : public ::testing::TestWithParam<DeviceCase> {
 protected:
  Steps run(Context& context) const {
    const auto& [name, model_config, parts] = GetParam();
    TrainConfig config;
    config.accumulation = parts;
    config.clip_norm = 0.5;
    config.average = Averaging::exponential;
    Model model(context, model_config);
    Stepper stepper(context, model, config);
    Steps steps;
    const auto count = [&](const auto& f) {
      const int before = memory_->reads;
      f();
      steps.reads.push_back(memory_->reads - before);
    };
    for (std::int64_t step = 1; step <= 2; ++step) {
      std::vector<Batch> batches;
      for (std::int64_t part = 0; part < parts; ++part)
        batches.push_back(batch(context, static_cast<std::uint64_t>(parts * step + part)));
      StepReport report;
      report.step = step;
      count([&] { stepper.step(batches, 1e-2, report); });
      steps.numbers.insert(steps.numbers.end(), {report.loss, report.accuracy, report.gradient_norm});
    }
    count([&] {
      Tape tape(context, {.record = false});
      const Loss::Numbers loss = model.loss(tape, batch(context, 9)).read(context);
      steps.numbers.insert(steps.numbers.end(), {loss.value, loss.asked, loss.correct, loss.deviation});
    });
    for (const Parameter& p : model.parameters()) steps.weights.push_back(p.var.value().to_vector<double>());
    for (const Tensor& average : stepper.average()->averages()) steps.averages.push_back(average.to_vector<double>());
    return steps;
  }

  Batch batch(const Context& context, std::uint64_t seed) const {
    return to_device(context, families::random_batch(host_, GetParam().config, seed));
  }

  std::shared_ptr<FencedMemory> memory_ = std::make_shared<FencedMemory>();
  Context device_{{.threads = 2, .seed = 7, .memory = {.poison = true}, .pages = memory_}};
  Context host_{{.threads = 2, .seed = 7, .memory = {.poison = true}}};
};

TEST_P(TrainingOnDevice, HasTheBitsOfTheHostAndReadsOnceAStep) {
  const Steps there = run(device_), here = run(host_);
  EXPECT_EQ(there.numbers, here.numbers);
  EXPECT_EQ(there.weights, here.weights);
  EXPECT_EQ(there.averages, here.averages);
  EXPECT_EQ(there.reads, (std::vector<int>{1, 1, 1}));
}

std::vector<DeviceCase> device_cases() {
  std::vector<DeviceCase> cases;
  for (const std::string& name : families::names()) cases.push_back({name, families::family(name, DType::f32)});
  const auto classifier = [&](const std::string& name, const auto& change) {
    ModelConfig config = families::family("transformer", DType::f32);
    config.dropout = config.inner_dropout = config.attention_dropout = 0.1;
    change(config);
    cases.push_back({name, config});
  };
  for (const char* attention : {"transnormer-t2", "performer", "reformer", "informer"})
    classifier(attention, [&](ModelConfig& c) { c.set_attention(attention); });
  for (const FeedForward form : {FeedForward::ffn, FeedForward::glu})
    classifier(form == FeedForward::ffn ? "experts" : "experts-glu", [&](ModelConfig& c) {
      c.experts = 3;
      c.feed_forward = form;
    });
  for (const DType dtype : {DType::bf16, DType::f16})
    classifier(std::string(name_of(dtype)), [&](ModelConfig& c) { c.dtype = dtype; });
  classifier("recomputed", [](ModelConfig& c) { c.checkpointing = true; });
  classifier("parts", [](ModelConfig&) {});
  cases.back().parts = 2;
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, TrainingOnDevice, ::testing::ValuesIn(device_cases()), kNamedAsPrinted);

// Data, training, evaluation and checkpoints: a whole run.
TEST(TrainingOnDevice, ARunIsThatOfTheHost) {
  const auto run = [](Context& context) {
    const Dataset data = tiny::dataset(1, 40, 10);
    Model model(context, tiny::config("transnormer-t2"));
    TrainConfig config = tiny::quick();
    config.prefetch = 0;
    Trainer trainer(context, model, data, config);
    const TrainResult result = trainer.run();
    std::vector<std::vector<float>> weights{
        {static_cast<float>(result.best.loss), static_cast<float>(result.last.loss)}};
    for (const Parameter& p : model.parameters()) weights.push_back(p.var.value().to_vector<float>());
    return weights;
  };
  Context host({.threads = 2, .seed = 9}), device({.threads = 2, .seed = 9, .pages = std::make_shared<FencedMemory>()});
  EXPECT_EQ(run(device), run(host));
}

}  // namespace
}  // namespace fovea::testing
