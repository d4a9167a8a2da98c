#include "bench/train_step.h"

#include "core/rng.h"
#include "data/listops/listops.h"
#include "measure/rounds.h"

namespace fovea::bench {
namespace {

constexpr std::int64_t kBatch = 8, kLength = 2048, kSteps = 20, kWarmSteps = 3;

std::vector<Example> random_examples(std::int64_t count, std::uint64_t stream) {
  Random random(1, stream);
  std::vector<Example> examples(static_cast<std::size_t>(count));
  for (Example& example : examples) {
    example.tokens.resize(kLength);
    for (auto& token : example.tokens) token = static_cast<std::uint8_t>(1 + random.below(listops::kVocabulary - 1));
    example.label = static_cast<int>(random.below(listops::kClasses));
  }
  return examples;
}

Dataset random_data() {
  LabelledData data;
  data.name = "random";
  data.classes = listops::kClasses;
  data.vocabulary = listops::kVocabulary;
  data.max_length = kLength;
  data.train = random_examples(kBatch * kSteps, 1);
  data.validation = data.test = random_examples(1, 2);
  return dataset_of(std::move(data));
}

class StepTimes : public TrainObserver {
 public:
  void on_step(const StepReport& report) override { seconds.push_back(report.seconds); }
  std::vector<double> seconds;
};

}  // namespace

double StepTiming::share(std::string_view zone) const {
  double all = 0.0, wanted = 0.0;
  for (const ZoneTime& z : zones) {
    all += z.seconds;
    if (z.name == zone) wanted = z.seconds;
  }
  return all > 0.0 ? wanted / all : 0.0;
}

StepTiming time_train_step(const std::string& preset, int threads) {
  Context context({.threads = threads});
  const Dataset data = random_data();
  ModelConfig config = ModelConfig::preset(preset);
  config.vocabulary = data.vocabulary;
  config.classes = data.classes;
  config.max_length = kLength;
  Model model(context, config);

  TrainConfig train;
  train.batch = kBatch;
  train.eval_every = 0;
  train.checkpoint_every = 0;
  train.steps = kWarmSteps;
  Trainer(context, model, data, train).run();
  train.steps = kSteps;
  Trainer trainer(context, model, data, train);
  StepTimes times;
  trainer.add(times);
  const TrainResult result = trainer.run();
  return {preset, median(std::move(times.seconds)), result.zones, result.peak_memory};
}

}  // namespace fovea::bench
