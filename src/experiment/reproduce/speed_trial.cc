#include "core/rng.h"
#include "data/labelled.h"
#include "experiment/reproduce/trials.h"
#include "measure/rounds.h"
#include "measure/stopwatch.h"

// Speed of training and inference on random tokens, every sequence as long as data.length.
namespace fovea {
namespace {

constexpr int kWarmSteps = 3;  // memory is taken, plans are made

Dataset random_sequences(std::int64_t count, std::int64_t length) {
  constexpr int kClasses = 10, kVocabulary = 256;
  Random random(1);
  LabelledData data{"random tokens", kClasses, kVocabulary, static_cast<int>(length)};
  for (std::int64_t i = 0; i < count; ++i) {
    Example example;
    for (std::int64_t j = 0; j < length; ++j)
      example.tokens.push_back(static_cast<std::uint8_t>(1 + random.below(kVocabulary - 1)));
    example.label = static_cast<int>(random.below(kClasses));
    data.train.push_back(example);
  }
  data.validation = data.test = data.train;
  return dataset_of(std::move(data));
}

class StepTimes : public TrainObserver {
 public:
  void on_step(const StepReport& report) override {
    if (report.step > kWarmSteps) seconds.push_back(report.seconds);
  }
  std::vector<double> seconds;
};

void time_training(const RunSettings& settings, const Dataset& data, ContextOptions machine, Outcome& outcome) {
  machine.seed = settings.train.seed;
  Context context(machine);
  Model model(context, settings.model);
  TrainConfig train = settings.train;
  train.steps += kWarmSteps;
  train.out.clear();
  train.eval_every = 0;
  train.eval_examples = 1;
  Trainer trainer(context, model, data, train);
  StepTimes times;
  trainer.add(times);
  const TrainResult result = trainer.run();
  outcome.set("train_steps_per_second", 1.0 / median(times.seconds));
  outcome.set("train_memory", static_cast<double>(result.peak_memory));
  outcome.parameters = model.parameter_count();
  outcome.peak_memory = result.peak_memory;
  outcome.steps = std::ssize(times.seconds);
  outcome.seconds = result.train_seconds;
  outcome.tokens = result.tokens;
}

void time_inference(const RunSettings& settings, const Dataset& data, const ContextOptions& machine, Outcome& outcome) {
  Context context(machine);
  const Model model(context, settings.model);
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < settings.train.steps + kWarmSteps; ++i) {
    const Stopwatch watch;
    evaluate(context, model, *data.test, {.examples = settings.train.batch, .batch = settings.train.batch});
    if (i >= kWarmSteps) seconds.push_back(watch.seconds());
  }
  outcome.set("inference_steps_per_second", 1.0 / median(seconds));
  outcome.set("inference_memory", static_cast<double>(context.allocator()->total().peak));
}

}  // namespace

Outcome run_speed(const TrialCall& call) {
  RunSettings settings = call.plan.settings(call.cell);
  const Dataset data = random_sequences(settings.train.batch, settings.data.length);
  settings.model.max_length = settings.data.length;
  settings.model.fit(data);
  const auto& [machine, observer] = std::tie(call.environment.machine, call.environment.observer);
  observer.on_detail("timing " + call.plan.name(call.cell));
  Outcome outcome;
  time_training(settings, data, machine, outcome);
  time_inference(settings, data, machine, outcome);
  outcome.smaller = call.plan.smaller_model(call.cell.trial);
  return outcome;
}

}  // namespace fovea
