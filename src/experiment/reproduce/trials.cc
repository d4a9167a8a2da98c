#include "experiment/reproduce/trials.h"

#include <algorithm>
#include <cmath>

#include "data/batches.h"
#include "experiment/run_folder.h"
#include "experiment/token_frequencies.h"
#include "io/csv.h"
#include "measure/machine.h"
#include "models/files.h"
#include "train/spread.h"

namespace fovea {
namespace {

void set_scores(const RunResult& result, const Dataset& data, Outcome& outcome) {
  const Scores& scores = result.scores;
  outcome.set("loss", scores.loss);
  if (scores.classes()) {
    outcome.set("accuracy", scores.accuracy);
    outcome.set("validation_accuracy", result.validation_accuracy);
    outcome.set("majority", scores.majority);
  } else if (scores.task == Task::forecast) {
    outcome.set("mse", scores.loss);
    outcome.set("mae", scores.deviation);
  } else {
    outcome.set("perplexity", scores.perplexity());
    outcome.set("validation_perplexity", std::exp(result.validation_loss));
    outcome.set("frequency_perplexity", std::exp(frequency_loss(empty(data.test) ? *data.validation : *data.test)));
    outcome.set("validation_frequency_perplexity", std::exp(frequency_loss(*data.validation)));
  }
  outcome.set("steps_per_second", result.steps_per_second());
}

// The published budget of the trial, and what of it was run.
void set_budget(const TrialCall& call, const Dataset& data, const RunResult& result, Outcome& outcome) {
  const TrainConfig full = call.trial().protocol.train.value_or(TrainConfig{});
  if (full.minutes > 0.0)
    outcome.all_seconds = 60.0 * full.minutes;
  else
    outcome.all_steps = full.steps;
  outcome.steps = result.steps;
  outcome.seconds = result.train_seconds;
  outcome.tokens = result.tokens;
  outcome.examples = data.train->size() + (data.validation ? data.validation->size() : 0);
  if (const KnownSet* set = call.plan.data_set(call.cell.trial)) outcome.all_examples = set->train;
  outcome.smaller = call.plan.smaller_model(call.cell.trial);
}

// Answers of a classifier of two classes, counted.
struct Answers {
  double right_yes = 0.0, wrong_yes = 0.0, right_no = 0.0, wrong_no = 0.0;

  double f1() const { return 2.0 * right_yes / std::max(1.0, 2.0 * right_yes + wrong_yes + wrong_no); }
  double matthews() const {
    const double product =
        (right_yes + wrong_yes) * (right_yes + wrong_no) * (right_no + wrong_yes) * (right_no + wrong_no);
    return product > 0.0 ? (right_yes * right_no - wrong_yes * wrong_no) / std::sqrt(product) : 0.0;
  }
};

Answers count_answers(Context& context, const Model& model, const Split& split) {
  Answers answers;
  Batches batches(split, {.shuffle = false});
  while (!batches.epoch_done()) {
    const Batch batch = batches.next(context);
    Tape tape(context, {.record = false});
    const std::vector<float> logits = model.forward(tape, batch).value().to_vector<float>();
    const std::vector<std::int32_t> classes = batch.targets.to_vector<std::int32_t>();
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const bool yes = logits[2 * i + 1] > logits[2 * i];
      ++(classes[i] == 1 ? (yes ? answers.right_yes : answers.wrong_no) : (yes ? answers.wrong_yes : answers.right_no));
    }
  }
  return answers;
}

void set_two_class_scores(const TrialCall& call, const RunSettings& settings, const Path& start, Outcome& outcome) {
  const auto data = call.data.load(settings, start, call.environment);
  if (data->classes != 2 || empty(data->test)) return;
  Context context(call.environment.machine);
  const Model model = load_model(context, (Path(settings.train.out) / "best").string());
  const Answers answers = count_answers(context, model, *data->test);
  outcome.set("f1", answers.f1());
  outcome.set("matthews", answers.matthews());
}

}  // namespace

std::shared_ptr<const Dataset> LastDataset::load(const RunSettings& settings, const Path& tokenizer,
                                                 const RunEnvironment& run) {
  const Json wanted{{"data", write_fields(settings.data)},
                    {"task", static_cast<int>(settings.model.task)},
                    {"length", settings.model.max_length},
                    {"tokenizer", tokenizer.string()}};
  if (data_ && settings_ == wanted.dump()) return data_;
  data_.reset();  // not two of them in memory
  data_ = std::make_shared<const Dataset>(load_data(Context(run.machine), settings, tokenizer, run.observer));
  settings_ = wanted.dump();
  return data_;
}

double gradient_deviation(const Path& run) {
  Spread norms;
  for (const double norm : read_csv(run / "metrics.csv").numbers("gradient_norm")) norms.add(norm);
  return norms.relative_deviation();
}

Outcome train_and_judge(const TrialCall& call, RunSettings settings, const Path& start) {
  const auto data = call.data.load(settings, start, call.environment);
  fit_to_data(settings, *data);
  const Path folder = settings.train.out;
  RunEnvironment environment = call.environment;
  environment.start = start.string();
  const RunResult result =
      run_model(settings, *data, environment, is_there(folder / kRunFile) ? folder.string() : std::string());
  Outcome outcome;
  set_scores(result, *data, outcome);
  set_budget(call, *data, result, outcome);
  if (const double deviation = gradient_deviation(folder); std::isfinite(deviation))
    outcome.set("gradient_deviation", deviation);
  outcome.parameters = result.parameters;
  outcome.peak_memory = result.peak_memory;
  return outcome;
}

Outcome run_training(const TrialCall& call) { return train_and_judge(call, call.plan.settings(call.cell), {}); }

Path start_of(const StudyPlan& plan, const StudyCell& cell) {
  StudyCell before = cell;
  before.trial = plan.start_of(cell.trial);
  return before.trial == cell.trial ? Path() : plan.folder(before) / "training" / "best";
}

// The frame is that of the weights; what is asked of it is what the data says.
Outcome run_tuning(const TrialCall& call) {
  const Path start = start_of(call.plan, call.cell);
  RunSettings settings = call.plan.settings(call.cell);
  const Task task = call.trial().protocol.task.value_or(usual_task(settings.data));
  ModelConfig model = read_model_config(start / kConfigFile);
  model.task = task == Task::match ? Task::classify : task;  // fitting it to pairs makes it compare them
  model.pooling = Pooling::mean;
  model.head_bias = model.head_transform = false;
  model.classifier_hidden = model.width;
  settings.model = std::move(model);
  Outcome outcome = train_and_judge(call, settings, start);
  set_two_class_scores(call, settings, start, outcome);
  return outcome;
}

Outcome run_size(const TrialCall& call) {
  RunSettings settings = call.plan.settings(call.cell);
  Context context(call.environment.machine);
  Outcome outcome;
  outcome.parameters = Model(context, settings.model).parameter_count();
  outcome.set("parameters", static_cast<double>(outcome.parameters));
  outcome.peak_memory = context.allocator()->total().peak;
  outcome.smaller = call.plan.smaller_model(call.cell.trial);
  return outcome;
}

Outcome run_trial(const TrialCall& call) {
  Outcome outcome;
  try {
    switch (call.trial().kind) {
      case TrialKind::training: outcome = run_training(call); break;
      case TrialKind::tuning: outcome = run_tuning(call); break;
      case TrialKind::speed: outcome = run_speed(call); break;
      case TrialKind::locality: outcome = run_locality(call); break;
      case TrialKind::size: outcome = run_size(call); break;
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory)
      outcome.trouble = "out of memory";
    else if (error.code() == ErrorCode::diverged)
      outcome.trouble = "diverged";
    else
      throw;
  }
  outcome.machine = this_machine().text();
  if (call.environment.machine.device != Device::cpu)
    outcome.machine += ", " + std::string(name_of(call.environment.machine.device));
  return outcome;
}

}  // namespace fovea
