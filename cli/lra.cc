#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>

#include "cli/compare_report.h"
#include "cli/interrupt.h"
#include "cli/run_model.h"
#include "cli/run_text.h"
#include "cli/verb.h"
#include "io/lock.h"

// fovea lra: several models on one task of the Long-Range Arena, each with the same budget.
namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

struct LraOptions {
  RunOptions run;
  std::string attention = "transformer,transnormer-t2";
  std::string resume;
};

// What is compared and how: comparison.json, written first, so that an interrupted comparison can go on.
struct Comparison {
  std::vector<std::string> models;
  std::vector<RunSettings> runs;  // of each model
  std::string folder;

  void fields(FieldVisitor& v) {
    v("models", models, "presets or mechanisms, in order");
    v("runs", runs, "settings of each");
  }
};

// Settings for minutes instead of days: the published run takes 50000 steps at 1e-4.
RunSettings short_run() {
  RunSettings settings;
  settings.keep_train = true;
  settings.data.train = 32000;
  settings.train.minutes = 2.0;
  settings.train.steps = kNoStepLimit;
  settings.train.schedule.peak = 2e-3;
  settings.train.schedule.warmup = 50;
  settings.train.clip_value = 0.0;
  settings.train.clip_norm = 1.0;
  settings.train.batch = 16;
  settings.train.eval_every = 100;
  settings.train.eval_examples = 500;
  settings.train.checkpoint_every = 200;
  settings.train.length_window = 16;
  return settings;
}

// In a few minutes a model sees each example at most once: there is nothing to overfit, and dropout only makes learning
// slower. A config file decides for itself.
RunOptions with_model(RunOptions options, const std::string& model) {
  options.attention = model;
  if (!options.config.empty()) return options;
  options.set.insert(options.set.begin(), {"model.dropout=0", "model.inner_dropout=0", "model.attention_dropout=0"});
  return options;
}

// "listops", or the last part of a path.
std::string source_name(const fs::path& source) {
  return folder_name((source.has_filename() ? source : source.parent_path()).stem().string());
}

Comparison new_comparison(const LraOptions& options) {
  Comparison comparison;
  comparison.models = split_names(options.attention, "--attention");
  if (std::set<std::string>(comparison.models.begin(), comparison.models.end()).size() != comparison.models.size())
    fail(ErrorCode::usage, "a model is named twice", "--attention", options.attention);
  for (const std::string& model : comparison.models)
    comparison.runs.push_back(resolve(short_run(), with_model(options.run, model)));
  const std::string& out = comparison.runs.front().train.out;
  comparison.folder = out.empty() ? default_folder(source_name(comparison.runs.front().data.source)) : out;
  require_new_folder(comparison.folder);
  for (std::size_t i = 0; i < comparison.models.size(); ++i)
    comparison.runs[i].train.out = (fs::path(comparison.folder) / folder_name(comparison.models[i])).string();
  return comparison;
}

Comparison old_comparison(const std::string& folder) {
  const fs::path file = fs::path(folder) / kComparisonFile;
  if (!is_there(file))
    fail(ErrorCode::bad_input, fmt::format("no comparison in \"{}\": it has no {}", folder, kComparisonFile),
         "--resume", "the folder given to --out");
  Comparison comparison = load_fields<Comparison>(file);
  if (comparison.runs.size() != comparison.models.size() || comparison.models.empty())
    fail(ErrorCode::bad_input, "every model needs its settings, and only models have some", file.string() + ": runs");
  comparison.folder = folder;
  for (std::size_t i = 0; i < comparison.models.size(); ++i)  // the folder may have been moved
    comparison.runs[i].train.out = (fs::path(folder) / folder_name(comparison.models[i])).string();
  return comparison;
}

std::size_t longest(const std::vector<std::string>& names) {
  std::size_t length = 0;
  for (const std::string& name : names) length = std::max(length, name.size());
  return length;
}

// Trains what is not finished yet.
std::vector<RunResult> run_all(Comparison& comparison, const Dataset& data, const LraOptions& options,
                               const Console& console) {
  const Interrupt interrupt;
  std::vector<RunResult> results;
  for (std::size_t i = 0; i < comparison.models.size(); ++i) {
    RunSettings& settings = comparison.runs[i];
    const fs::path folder = settings.train.out;
    if (is_there(folder / kResultFile)) {
      results.push_back(load_fields<RunResult>(folder / kResultFile));
      continue;
    }
    fit_to_data(settings, data);
    const RunEnvironment environment{console,
                                     options.run.machine,
                                     interrupt.requested(),
                                     comparison.models[i],
                                     "fovea lra listops --resume " + comparison.folder,
                                     longest(comparison.models)};
    results.push_back(
        run_model(settings, data, environment, is_there(folder / kRunFile) ? folder.string() : std::string()));
  }
  return results;
}

void run(const LraOptions& options, const Console& console) {
  Comparison comparison = options.resume.empty() ? new_comparison(options) : old_comparison(options.resume);
  const FolderLock lock(comparison.folder);
  const Dataset data = load_data(Context(options.run.machine.context()), comparison.runs.front(), {}, console);
  for (RunSettings& settings : comparison.runs) fit_to_data(settings, data);
  write_file(fs::path(comparison.folder) / kComparisonFile, json_text(write_fields(comparison)));
  console.note(describe_data(data));
  const std::vector<RunResult> results = run_all(comparison, data, options, console);

  const CompareReport report{console.command,       data.name, describe_data(data),
                             data.test->majority(), results,   comparison.runs};
  console.print("\n" + results_table(results).text(Terminal::of(STDOUT_FILENO)));
  console.document(compare_json(report));
  write_comparison(report, comparison.folder);
  console.note(fmt::format("report: {}/report.html", comparison.folder));
}

}  // namespace

void add_lra(Program& program) {
  const Arguments group = program.add_group({"lra",
                                             "Trains and compares models on the Long-Range Arena.",
                                             {"fovea lra listops --minutes 2", "fovea lra listops --help"}});
  const auto options = std::make_shared<LraOptions>();
  const Arguments verb = program.add(
      {"listops",
       "Trains models on ListOps, each with the same budget, and compares them in a table and a "
       "report page.",
       {"fovea lra listops --attention transformer,transnormer-t2 --minutes 2",
        "fovea lra listops --attention softmax,norm,diag --steps 500 --out runs/mine"}},
      [options](const Console& console) { run(*options, console); }, &group);
  verb.add_option("--attention", options->attention, "models or mechanisms (fovea list)")
      .type_name("A,B")
      .show_default();
  verb.add_option("--resume", options->resume, "continue the comparison in this folder").type_name("FOLDER");
  add_run_options(verb, options->run);
}

}  // namespace fovea::cli
