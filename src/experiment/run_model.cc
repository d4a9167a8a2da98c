#include "experiment/run_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include <algorithm>

#include "experiment/health_log.h"
#include "experiment/predictions.h"
#include "experiment/run_folder.h"
#include "experiment/start.h"
#include "inspect/gradient_health.h"
#include "measure/load.h"
#include "models/adapter.h"
#include "models/files.h"
#include "models/mesh.h"

namespace fovea {
namespace {

// Data that has no test split is judged by its validation split.
const Split& judged_split(const Dataset& data) { return empty(data.test) ? *data.validation : *data.test; }

struct Tested {
  LengthReport report;
  Correlations correlations = {};  // of numbers
};

Tested test_best(const RunSettings& settings, const Dataset& data, const RunEnvironment& environment) {
  ContextOptions options = environment.machine;
  options.seed = settings.train.seed;
  Context context(options);
  const Path best = Path(settings.train.out) / "best";  // none: there was no validation
  Model model = load_model(context, (is_there(best) ? best : best.parent_path() / "last").string());
  set_mesh(model, environment.mesh);
  RunObserver& observer = environment.observer;
  observer.on_testing(environment.name, empty(data.test) ? "validation" : "test");
  const Split& split = judged_split(data);
  Tested tested;
  tested.report = evaluate_by_length(
      context, model, split,
      {.batch = settings.train.eval_batch,
       .stop = environment.stop,
       .progress = [&](std::int64_t done, std::int64_t all) { observer.on_test_progress(done, all); }},
      environment.mesh);
  if (data.task == Task::regress)
    tested.correlations = correlations(
        predict_numbers(context, model, split, {.batch = settings.train.eval_batch, .stop = environment.stop}));
  observer.on_tested();
  return tested;
}

// Any of the ranks.
bool asked_to_stop(const RunEnvironment& environment) {
  const double own = environment.stop != nullptr && environment.stop->load() ? 1.0 : 0.0;
  const std::vector<double> all = environment.mesh.all.all_gather(std::span(&own, 1));
  return *std::max_element(all.begin(), all.end()) > 0.0;
}

// Which parameters the start did not bring.
void tell_start(const RunEnvironment& environment, const std::vector<std::string>& drawn) {
  if (drawn.empty()) return;
  std::vector<std::string> parts;
  for (const std::string& name : drawn)
    if (const std::string part = name.substr(0, name.rfind('.')); parts.empty() || parts.back() != part)
      parts.push_back(part);
  const bool many = parts.size() > 4;
  environment.observer.on_note(
      fmt::format("new, and not in the folder: {}{}",
                  fmt::join(parts.begin(), parts.begin() + (many ? 3 : std::ssize(parts)), ", "),
                  many ? fmt::format(" and {} more", parts.size() - 3) : ""));
}

// What was trained beside the weights of the start, in a folder of its own.
void write_adapter(const RunSettings& settings) {
  if (!has_adapters(settings.model)) return;
  const Path folder = Path(settings.train.out) / "adapter", best = Path(settings.train.out) / "best";
  if (is_there(folder)) std::filesystem::remove_all(folder);  // of the same run, before it went on
  save_adapter(is_there(best) ? best : Path(settings.train.out) / "last", checkpoint_of(settings.from, "--from"),
               folder.string());
}

[[noreturn]] void stopped(const RunSettings& settings, const RunEnvironment& environment, std::int64_t step) {
  fail(ErrorCode::interrupted, fmt::format("stopped after step {}; everything is saved", step), settings.train.out,
       environment.resume_command);
}

RunResult summarize(const RunEnvironment& environment, const Model& model, const TrainResult& result) {
  RunResult summary;
  summary.name = environment.name;
  summary.validation_accuracy = result.best.accuracy;
  summary.validation_loss = result.best.loss;
  summary.best_step = result.best.step;
  summary.steps = result.steps;
  summary.train_seconds = result.train_seconds;
  summary.eval_seconds = result.eval_seconds;
  summary.input_seconds = result.input_seconds;
  summary.skipped = result.skipped;
  summary.tokens = result.tokens;
  summary.parameters = model.parameter_count();
  summary.peak_memory = result.peak_memory;
  summary.zones = result.zones;
  return summary;
}

// What environment.watch asks for.
class Measuring {
 public:
  Measuring(const RunEnvironment& environment, Context& context, const Model& model, const TrainConfig& config) {
    if (environment.watch == Watch::profile) profile_.emplace(context);
    if (environment.watch != Watch::health) return;
    if (environment.mesh.all_weights.size() > 1) {
      const char* const axis = environment.mesh.tensor.size() > 1 ? "tensor" : "pipeline";
      fail(ErrorCode::unsupported, "each rank sees the gradients of its part of the weights alone",
           fmt::format("support matrix: health x {}", axis), fmt::format("a mesh without the axis {}", axis));
    }
    health_.emplace(context, model, GradientHealth::Options{.every = config.log_every, .warn = environment.warn});
    if (environment.mesh.leads()) folder_ = config.out;
  }

  // Before other observers are added: they are told what was found.
  void join(Trainer& trainer) {
    if (profile_) trainer.add(*profile_), trainer.set_tape_observer(*profile_);
    if (!health_) return;
    trainer.add(*health_);
    trainer.set_tape_observer(*health_);
    if (folder_.empty()) return;
    log_.emplace(folder_, *health_);
    trainer.add(*log_);
  }

  void tell(RunResult& summary) const {
    if (profile_) summary.profile = profile_->report();
    if (health_) summary.health = health_->report();
  }

 private:
  std::optional<Profile> profile_;
  std::optional<GradientHealth> health_;
  std::optional<HealthLog> log_;
  std::string folder_;
};

// One entry of the list of zones.
struct ZoneFields {
  ZoneTime zone;
  void fields(FieldVisitor& v) {
    v("name", zone.name, "part of the work");
    v("seconds", zone.seconds, "time in it", at_least(0));
  }
};

}  // namespace

void RunResult::fields(FieldVisitor& v) {
  v("name", name, "preset or mechanism");
  v("seed", seed, "of weights, data order and dropout");
  scores.fields(v);
  v("validation_accuracy", validation_accuracy, "of the best checkpoint", between(0, 1));
  v("validation_loss", validation_loss, "of the best checkpoint");
  v("best_step", best_step, "step of the best checkpoint", at_least(0));
  v("steps", steps, "steps taken", at_least(0));
  v("train_seconds", train_seconds, "training time, evaluation not counted", at_least(0));
  v("eval_seconds", eval_seconds, "evaluation time", at_least(0));
  v("input_seconds", input_seconds, "of the training time, waiting for batches", at_least(0));
  v("skipped", skipped, "steps whose f16 gradients overflowed", at_least(0));
  v("tokens", tokens, "read while training", at_least(0));
  v("parameters", parameters, "learned numbers", at_least(0));
  v("peak_memory", peak_memory, "most bytes in use at once");
  v("other_load", other_load, "cores that other programs kept busy meanwhile", at_least(0));
  std::vector<ZoneFields> listed;
  for (const ZoneTime& zone : zones) listed.push_back({zone});
  v("zones", listed, "where the training time went");
  zones.clear();
  for (ZoneFields& entry : listed) zones.push_back(std::move(entry.zone));
  v("by_length", by_length, "accuracy on inputs of like lengths");
  v("profile", profile, "the same by layer and operation");
  v("health", health, "gradients and scores by layer");
}

RunResult run_model(const RunSettings& settings, const Dataset& data, const RunEnvironment& environment,
                    const std::string& resume) {
  ContextOptions options = environment.machine;
  options.seed = settings.train.seed;
  Context context(options);
  const Path folder = settings.train.out;
  Model model(context, settings.model);
  const bool begun = is_there(folder / "metrics.csv") || is_there(folder / "last");  // else there is only run.json
  const std::string start = environment.start.empty() ? settings.from : environment.start;
  if (!start.empty() && !begun) {
    const std::vector<std::string> drawn = adopt_weights(context, model, checkpoint_of(start, "--from"));
    tell_start(environment, drawn);
    begin_numbers(context, model, data, &drawn);
  } else if (!begun) {
    begin_numbers(context, model, data);
  }
  const dist::Group& ranks = environment.mesh.all;
  Trainer trainer(context, model, data, settings.train);
  trainer.set_mesh(environment.mesh);
  trainer.claim();
  if (!resume.empty() && (begun || resume != folder)) trainer.resume(resume);
  if (is_there(folder / kResultFile) && trainer.finished()) {
    environment.observer.on_note(
        fmt::format("{} was finished before, nothing is changed; more --steps or --minutes go on", folder.string()));
    return load_fields<RunResult>(folder / kResultFile);
  }
  ranks.barrier();  // what is here has been looked at by all
  if (environment.mesh.leads()) write_file(folder / kRunFile, json_text(write_fields(settings)));

  environment.observer.on_training(environment.name, data.task);
  Measuring measuring(environment, context, model, settings.train);
  measuring.join(trainer);
  trainer.add(environment.observer);
  const LoadMeter load;
  const TrainResult result = trainer.run(environment.stop);
  const double others = load.others();
  environment.observer.on_trained();
  trainer.claim();  // until the result is written
  if (result.reason == StopReason::interrupted) stopped(settings, environment, result.steps);
  ranks.barrier();  // the best one is written
  if (environment.mesh.leads()) write_adapter(settings);
  Tested tested = test_best(settings, data, environment);
  if (asked_to_stop(environment)) stopped(settings, environment, result.steps);
  RunResult summary = summarize(environment, model, result);
  summary.seed = settings.train.seed;
  summary.scores = scores_of(data.task, tested.report.all, judged_split(data));
  summary.scores.pearson = tested.correlations.pearson;
  summary.scores.spearman = tested.correlations.spearman;
  summary.by_length = std::move(tested.report.groups);
  summary.other_load = others;
  measuring.tell(summary);
  if (environment.mesh.leads()) write_file(folder / kResultFile, json_text(write_fields(summary)));
  ranks.barrier();
  return summary;
}

}  // namespace fovea
