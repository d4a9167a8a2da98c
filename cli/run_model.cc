#include "cli/run_model.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "cli/progress.h"
#include "cli/train_progress.h"
#include "io/lock.h"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

// Data that has no test split is judged by its validation split.
const Split& judged_split(const Dataset& data) { return empty(data.test) ? *data.validation : *data.test; }

Scores test_best(const RunSettings& settings, const Dataset& data, const RunEnvironment& environment) {
  ContextOptions options = environment.machine.context();
  options.seed = settings.train.seed;
  Context context(options);
  const fs::path best = fs::path(settings.train.out) / "best";  // none: there was no validation
  const Model model = load_model(context, (is_there(best) ? best : best.parent_path() / "last").string());
  const EvalReport report =
      evaluate(context, model, judged_split(data),
               {.batch = settings.train.eval_batch,
                .stop = &environment.stop,
                .progress = eval_progress(environment.console,
                                          environment.name + (empty(data.test) ? " on validation" : " on test"))});
  return scores_of(data.task, report, judged_split(data));
}

[[noreturn]] void stopped(const RunSettings& settings, const RunEnvironment& environment, std::int64_t step) {
  fail(ErrorCode::interrupted, fmt::format("stopped after step {}; everything is saved", step), settings.train.out,
       environment.resume_command);
}

RunResult summarize(const RunEnvironment& environment, const Model& model, const TrainResult& result,
                    const Scores& scores) {
  RunResult summary;
  summary.name = environment.name;
  summary.scores = scores;
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

// Only what a run writes before its first checkpoint, or several runs in folders of their own.
bool holds_nothing_yet(const fs::path& folder) {
  constexpr std::string_view kFirstFiles[] = {kRunFile, kComparisonFile, "metrics.csv", ".lock"};
  bool run = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    run = run || name == kRunFile || name == kComparisonFile || name == ".lock";
    const bool first = std::find(std::begin(kFirstFiles), std::end(kFirstFiles), name) != std::end(kFirstFiles) ||
                       name.starts_with("events.out.") || name.ends_with(".partial");
    if (!first && !(entry.is_directory() && holds_nothing_yet(entry.path()))) return false;
  }
  return run;
}

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
  std::vector<ZoneFields> listed;
  for (const ZoneTime& zone : zones) listed.push_back({zone});
  v("zones", listed, "where the training time went");
  zones.clear();
  for (ZoneFields& entry : listed) zones.push_back(std::move(entry.zone));
}

RunResult run_model(const RunSettings& settings, const Dataset& data, const RunEnvironment& environment,
                    const std::string& resume) {
  ContextOptions options = environment.machine.context();
  options.seed = settings.train.seed;
  Context context(options);
  const fs::path folder = settings.train.out;
  Model model(context, settings.model);
  Trainer trainer(context, model, data, settings.train);
  trainer.claim();
  const bool begun = fs::exists(folder / "metrics.csv") || fs::exists(folder / "last");  // else there is only run.json
  if (!resume.empty() && (begun || resume != folder)) trainer.resume(resume);
  if (fs::exists(folder / kResultFile) && trainer.finished()) {
    environment.console.note(
        fmt::format("{} was finished before, nothing is changed; more --steps or --minutes go on", folder.string()));
    return load_fields<RunResult>(folder / kResultFile);
  }
  write_file(folder / kRunFile, json_text(write_fields(settings)));

  TrainProgress progress(environment.console, data.task, environment.name, environment.name_width);
  trainer.add(progress);
  const TrainResult result = trainer.run(&environment.stop);
  progress.finish();
  trainer.claim();  // until the result is written
  if (result.reason == StopReason::interrupted) stopped(settings, environment, result.steps);
  const Scores scores = test_best(settings, data, environment);
  if (environment.stop.load()) stopped(settings, environment, result.steps);
  const RunResult summary = summarize(environment, model, result, scores);
  write_file(folder / kResultFile, json_text(write_fields(summary)));
  return summary;
}

RunSettings load_settings(const std::string& folder) {
  const fs::path file = fs::path(folder) / kRunFile;
  if (!is_there(file))
    fail(ErrorCode::bad_input, fmt::format("no run in \"{}\": it has no {}", folder, kRunFile), folder,
         "the folder given to --out, not one inside it");
  RunSettings settings = load_fields<RunSettings>(file);
  settings.train.out = folder;  // it may have been moved
  return settings;
}

void require_new_folder(const std::string& folder) {
  if (!is_there(folder)) return;
  if (!is_folder(folder)) fail(ErrorCode::usage, fmt::format("\"{}\" is not a folder", folder), "--out");
  FolderLock::require_free(folder);
  if (!entries_of(folder).empty() && !holds_nothing_yet(folder))
    fail(ErrorCode::usage, fmt::format("the folder \"{}\" is not empty", folder), "--out",
         is_there(fs::path(folder) / kRunFile) ? "continue it with --resume " + folder + ", or another --out"
                                               : "a new folder: nothing is overwritten");
}

Path checkpoint_of(const std::string& folder, const char* who) {
  if (!is_folder(folder))
    fail(ErrorCode::bad_input, fmt::format("no folder \"{}\"", folder), who,
         "a folder made by fovea train or fovea import");
  for (const char* name : {"best", "last"})
    if (is_folder(fs::path(folder) / name)) return fs::path(folder) / name;
  return folder;
}

std::string default_folder(const std::string& name) {
  const std::string base = fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(std::time(nullptr)));
  std::string folder = base;
  for (int i = 2; is_there(folder); ++i) folder = fmt::format("{}-{}", base, i);
  return folder;
}

std::string describe_data(const Dataset& data) {
  std::string text = fmt::format("{}  {} train, {} test", data.name, data.train->size(), data.test->size());
  if (data.height > 0) text += fmt::format(", pictures of {} x {} x {}", data.height, data.width, data.channels);
  if (data.vocabulary > 0) text += fmt::format(", length up to {}", data.max_length);
  if (data.horizon > 0)
    text += fmt::format(", {} channels, {} rows from {}", data.channels, data.horizon, data.max_length);
  if (data.classes > 0)
    text += fmt::format(", {} classes (majority {:.1f}%)", data.classes, 100.0 * data.test->majority());
  else if (data.vocabulary > 0)
    text += fmt::format(", {} token ids", data.vocabulary);
  return text;
}

}  // namespace fovea::cli
