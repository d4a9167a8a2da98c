#include "experiment/reproduce/trials.h"
#include "experiment/step_cost.h"
#include "measure/rounds.h"
#include "measure/stopwatch.h"

// Speed of training and inference on random tokens, every sequence as long as data.length.
namespace fovea {
namespace {

void time_training(const RunSettings& settings, const Dataset& data, const ContextOptions& machine, Outcome& outcome) {
  const StepCost cost = measure_steps(machine, settings.model, data, settings.train);
  outcome.set("train_steps_per_second", 1.0 / cost.seconds);
  outcome.set("train_memory", static_cast<double>(cost.peak_memory));
  outcome.parameters = cost.parameters;
  outcome.peak_memory = cost.peak_memory;
  outcome.steps = cost.steps;
  outcome.seconds = cost.train_seconds;
  outcome.tokens = cost.tokens;
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
  const Dataset data = random_tokens({.examples = settings.train.batch, .length = settings.data.length});
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
