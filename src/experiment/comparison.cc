#include "experiment/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "experiment/run_folder.h"
#include "experiment/run_text.h"
#include "experiment/token_frequencies.h"

namespace fovea {
namespace {

// "listops", or the last part of a path.
std::string source_name(const Path& source) {
  return folder_name((source.has_filename() ? source : source.parent_path()).stem().string());
}

// Names that differ may make the same name of a folder.
std::vector<std::string> folder_names(const std::vector<std::string>& models) {
  std::vector<std::string> names;
  for (const std::string& model : models) {
    const std::string plain = folder_name(model);
    std::string name = plain;
    for (int i = 2; std::find(names.begin(), names.end(), name) != names.end(); ++i)
      name = fmt::format("{}-{}", plain, i);
    names.push_back(name);
  }
  return names;
}

struct Rival {
  std::string name;
  std::optional<std::string> model, attention;
};

std::vector<Rival> rivals_of(const ComparisonChoices& choices) {
  std::vector<Rival> rivals;
  if (choices.models.empty())
    for (const std::string& attention : choices.attention) rivals.push_back({attention, {}, attention});
  for (const std::string& model : choices.models) {
    if (choices.attention.empty()) rivals.push_back({model, model, {}});
    for (const std::string& attention : choices.attention)
      rivals.push_back({choices.models.size() == 1      ? attention
                        : choices.attention.size() == 1 ? model
                                                        : model + " " + attention,
                        model, attention});
  }
  if (rivals.empty())
    fail(ErrorCode::usage, "nothing to compare", "--attention",
         "fovea compare --data FILE --attention softmax,norm; models and mechanisms: fovea list models, fovea list");
  std::set<std::string> names;
  for (const Rival& rival : rivals)
    if (!names.insert(rival.name).second)
      fail(ErrorCode::usage, fmt::format("\"{}\" is named twice", rival.name),
           choices.attention.empty() ? "--model" : "--attention", "each once; --seeds 3 trains each with three seeds");
  return rivals;
}

// Each model is to see the same texts: as long as the one with the shortest reach takes.
RunSettings settings_of_data(const ComparisonPlan& plan) {
  RunSettings settings = plan.runs.front();
  for (const RunSettings& run : plan.runs)
    settings.model.max_length = std::min(settings.model.max_length, run.model.max_length);
  return settings;
}

}  // namespace

void set_folder(ComparisonPlan& plan, const std::string& folder) {
  plan.folder = folder;
  const std::vector<std::string> names = folder_names(plan.models);
  for (std::size_t m = 0; m < names.size(); ++m)
    for (std::size_t s = 0; s < plan.seeds.size(); ++s) {
      Path out = Path(folder) / names[m];
      if (plan.seeds.size() > 1) out /= fmt::format("seed-{}", plan.seeds[s]);
      plan.runs[m * plan.seeds.size() + s].train.out = out.string();
    }
}

std::string ComparisonPlan::run_name(std::size_t model, std::size_t seed) const {
  return seeds.size() == 1 ? models[model] : fmt::format("{} seed {}", models[model], seeds[seed]);
}

void ComparisonPlan::fields(FieldVisitor& v) {
  v("task", task, "of the arena; empty: none");
  v("models", models, "presets or mechanisms, in order");
  v("seeds", seeds, "of each model");
  v("runs", runs, "settings of each model with each seed");
}

ComparisonPlan plan_comparison(const Protocol& protocol, const ComparisonChoices& choices) {
  ComparisonPlan plan{.task = choices.task, .models = {}, .seeds = choices.seeds, .runs = {}, .folder = {}};
  for (const Rival& rival : rivals_of(choices)) {
    RunChoices chosen = choices.run;
    if (rival.model) chosen.model = rival.model;
    if (rival.attention) chosen.attention = rival.attention;
    chosen.compared = choices.task.empty();
    RunSettings settings = new_run(protocol, chosen);
    if (plan.seeds.empty()) plan.seeds = {settings.train.seed};
    for (const std::uint64_t seed : plan.seeds) {
      settings.train.seed = seed;
      plan.runs.push_back(settings);
    }
    plan.models.push_back(rival.name);
  }
  const RunSettings& first = plan.runs.front();
  set_folder(plan, first.train.out.empty() ? default_folder(source_name(first.data.source)) : first.train.out);
  return plan;
}

ComparisonPlan load_comparison(const std::string& folder) {
  const Path file = Path(folder) / kComparisonFile;
  if (!is_there(file))
    fail(ErrorCode::bad_input, fmt::format("no comparison in \"{}\": it has no {}", folder, kComparisonFile),
         "--resume", "the folder given to --out");
  ComparisonPlan plan = load_fields<ComparisonPlan>(file);
  if (plan.seeds.empty() && !plan.runs.empty()) plan.seeds = {plan.runs.front().train.seed};  // of an older version
  if (plan.runs.empty() || plan.runs.size() != plan.models.size() * plan.seeds.size())
    fail(ErrorCode::bad_input, "every model needs its settings for each seed, and only models have some",
         file.string() + ": runs");
  set_folder(plan, folder);
  return plan;
}

Comparison::Comparison(ComparisonPlan plan, const ContextOptions& machine, RunObserver& observer,
                       const dist::Mesh& mesh)
    : plan_(std::move(plan)) {
  if (mesh.leads()) lock_.emplace(plan_.folder);
  data_ = load_data(Context(machine), settings_of_data(plan_), {}, observer);
  for (RunSettings& settings : plan_.runs) fit_to_data(settings, data_);
  if (mesh.leads()) write_file(Path(plan_.folder) / kComparisonFile, json_text(write_fields(plan_)));
}

void Comparison::run(RunEnvironment environment) const {
  for (std::size_t s = 0; s < plan_.seeds.size(); ++s)
    for (std::size_t m = 0; m < plan_.models.size(); ++m) {
      const Path folder = plan_.run(m, s).train.out;
      if (is_there(folder / kResultFile)) continue;
      environment.name = plan_.run_name(m, s);
      run_model(plan_.run(m, s), data_, environment, is_there(folder / kRunFile) ? folder.string() : std::string());
    }
}

CompareReport Comparison::report() const {
  const Split& tested = empty(data_.test) ? *data_.validation : *data_.test;
  const bool stand_in = !plan_.task.empty() && arena_task(plan_.task).is_stood_in_for(plan_.run(0, 0).data.source);
  CompareReport report{.task = plan_.task,
                       .stand_in = stand_in,
                       .name = data_.name + (stand_in ? " (a stand-in, not the arena's set)" : ""),
                       .data = describe_data(data_),
                       .majority = tested.majority(),
                       .planned = std::ssize(plan_.runs)};
  for (std::size_t m = 0; m < plan_.models.size(); ++m) {
    RivalReport rival{plan_.models[m], {}, {}};
    for (std::size_t s = 0; s < plan_.seeds.size(); ++s) {
      const RunSettings& settings = plan_.run(m, s);
      const Path file = Path(settings.train.out) / kResultFile;
      if (!is_there(file)) continue;
      rival.settings.push_back(settings);
      rival.results.push_back(load_fields<RunResult>(file));
    }
    if (!rival.results.empty()) report.rivals.push_back(std::move(rival));
  }
  if (!report.rivals.empty() && report.scores().tokens()) report.frequency_loss = frequency_loss(tested);
  return report;
}

}  // namespace fovea
