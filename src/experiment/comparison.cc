#include "experiment/comparison.h"

#include <fmt/format.h>

#include <set>

#include "experiment/run_folder.h"
#include "experiment/run_text.h"

namespace fovea {
namespace {

// "listops", or the last part of a path.
std::string source_name(const Path& source) {
  return folder_name((source.has_filename() ? source : source.parent_path()).stem().string());
}

// Each model has a folder of its own below the comparison's, which may have been moved.
void set_folder(ComparisonPlan& plan, const std::string& folder) {
  plan.folder = folder;
  for (std::size_t i = 0; i < plan.models.size(); ++i)
    plan.runs[i].train.out = (Path(folder) / folder_name(plan.models[i])).string();
}

}  // namespace

void ComparisonPlan::fields(FieldVisitor& v) {
  v("models", models, "presets or mechanisms, in order");
  v("runs", runs, "settings of each");
}

ComparisonPlan plan_comparison(const Protocol& protocol, const std::vector<std::string>& models,
                               const RunChoices& choices) {
  if (models.empty()) fail(ErrorCode::usage, "nothing to compare", "--attention", "models or mechanisms (fovea list)");
  if (std::set<std::string>(models.begin(), models.end()).size() != models.size())
    fail(ErrorCode::usage, "a model is named twice", "--attention", fmt::format("{}", fmt::join(models, ",")));
  ComparisonPlan plan{models, {}, {}};
  for (const std::string& model : models) {
    RunChoices chosen = choices;
    chosen.attention = model;
    plan.runs.push_back(new_run(protocol, chosen));
  }
  const RunSettings& first = plan.runs.front();
  set_folder(plan, first.train.out.empty() ? default_folder(source_name(first.data.source)) : first.train.out);
  require_new_folder(plan.folder);
  return plan;
}

ComparisonPlan load_comparison(const std::string& folder) {
  const Path file = Path(folder) / kComparisonFile;
  if (!is_there(file))
    fail(ErrorCode::bad_input, fmt::format("no comparison in \"{}\": it has no {}", folder, kComparisonFile),
         "--resume", "the folder given to --out");
  ComparisonPlan plan = load_fields<ComparisonPlan>(file);
  if (plan.runs.size() != plan.models.size() || plan.models.empty())
    fail(ErrorCode::bad_input, "every model needs its settings, and only models have some", file.string() + ": runs");
  set_folder(plan, folder);
  return plan;
}

Comparison::Comparison(ComparisonPlan plan, const ContextOptions& machine, RunObserver& observer)
    : plan_(std::move(plan)),
      lock_(plan_.folder),
      data_(load_data(Context(machine), plan_.runs.front(), {}, observer)) {
  for (RunSettings& settings : plan_.runs) fit_to_data(settings, data_);
  write_file(Path(plan_.folder) / kComparisonFile, json_text(write_fields(plan_)));
}

CompareReport Comparison::run(RunEnvironment environment) const {
  CompareReport report{{}, data_.name, describe_data(data_), data_.test->majority(), {}, plan_.runs};
  for (std::size_t i = 0; i < plan_.models.size(); ++i) {
    const Path folder = plan_.runs[i].train.out;
    if (is_there(folder / kResultFile)) {
      report.results.push_back(load_fields<RunResult>(folder / kResultFile));
      continue;
    }
    environment.name = plan_.models[i];
    report.results.push_back(
        run_model(plan_.runs[i], data_, environment, is_there(folder / kRunFile) ? folder.string() : std::string()));
  }
  return report;
}

}  // namespace fovea
