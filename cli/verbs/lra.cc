#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/kit/run_comparison.h"
#include "cli/kit/verb.h"
#include "experiment/reproduce/known_sets.h"
#include "experiment/run_folder.h"
#include "experiment/tasks.h"

// fovea lra: a comparison on the tasks of the Long-Range Arena.
namespace fovea::cli {
namespace {

struct LraOptions {
  ComparisonOptions comparison;
  std::string protocol;
};

ComparisonPlan plan_of(const ArenaTask& task, const LraOptions& options, const Console& console) {
  const ComparisonChoices choices = options.comparison.choices(std::string(task.name));
  const RunChoices& run = choices.run;
  if (!task.files.empty() && !run.data && run.config.empty())
    fail(ErrorCode::usage, fmt::format("{} needs its data", task.title), "--data", std::string(task.files));
  if (run.data && is_there(*run.data)) refuse_half_copied(*run.data);
  return new_comparison(task.protocol(options.protocol), choices, options.comparison, console);
}

Json run(const ArenaTask& task, const LraOptions& options, const Console& console) {
  const ComparisonOptions& comparison = options.comparison;
  return run_comparison(comparison.resume.empty() ? plan_of(task, options, console) : resumed_comparison(comparison),
                        comparison, console);
}

// What published sets the tasks take, below the folder given to --data; empty: it is generated.
std::vector<std::string> sets_of(const ArenaTask& task) {
  if (task.name == "text") return {"imdb"};
  if (task.name == "image") return {"cifar10"};
  if (task.name == "retrieval") return {"aan", "acl-retrieval"};
  return {};
}

// The task's part of a run of all of them; none: its data is not there.
std::optional<LraOptions> options_for(const ArenaTask& task, const LraOptions& all, const Path& folder) {
  LraOptions options = all;
  RunChoices& run = options.comparison.run.typed;
  run.data.reset();
  run.out = (folder / task.name).string();
  if (task.files.empty()) return options;
  const std::optional<std::string>& below = all.comparison.run.typed.data;
  for (const std::string& set : sets_of(task))
    if (!run.data && below)
      if (const auto place = find_set(known_set(set), *below)) run.data = place->string();
  return run.data ? std::optional(options) : std::nullopt;
}

// A part that was begun goes on; one that was not begins, where the options are those of a new run.
Json run_part(const ArenaTask& task, const LraOptions& part, const Console& console) {
  const std::string folder = part.comparison.run.typed.out.value_or("");
  if (is_there(Path(folder) / kComparisonFile))
    return run_comparison(load_comparison(folder), part.comparison, console);
  return run_comparison(plan_of(task, part, console), part.comparison, console);
}

void run_every(const LraOptions& options, const Console& console) {
  const ComparisonOptions& all = options.comparison;
  const Path folder = all.resume.empty() ? all.run.typed.out.value_or(default_folder("lra")) : all.resume;
  Console told = console;
  told.json = false;  // one document for all of them
  Json documents = Json::object();
  for (const ArenaTask& task : arena_tasks()) {
    const auto part = options_for(task, options, folder);
    if (!part) {
      console.note(
          fmt::format("{} is left out: --data with {}", task.title, expected_files(known_set(sets_of(task).front()))));
      continue;
    }
    const std::optional<std::string>& data = part->comparison.run.typed.data;
    console.note(fmt::format("\n{}{}", task.title,
                             data && task.is_stood_in_for(*data) ? ": a stand-in, not the arena's set" : ""));
    documents[std::string(task.name)] = run_part(task, *part, told);
  }
  console.document(documents);
}

void add_options(const Arguments& verb, const ArenaTask& task, LraOptions& options) {
  options.comparison.attention = "transformer,transnormer-t2,diag:block=64";  // the last reads its neighbours alone
  std::vector<std::string_view> names;
  for (const TaskProtocol& protocol : task.protocols) names.push_back(protocol.name);
  options.protocol = names.front();
  add_comparison_options(verb, options.comparison);
  verb.add_option("--protocol", options.protocol, fmt::format("model and training: {}", fmt::join(names, ", ")))
      .type_name("NAME")
      .show_default();
}

void add_task(Program& program, const Arguments& group, const ArenaTask& task) {
  const auto options = std::make_shared<LraOptions>();
  const std::string typed = fmt::format("fovea lra {}{}", task.name, task.files.empty() ? "" : " --data FOLDER");
  const Arguments verb = program.add(
      {std::string(task.name),
       fmt::format("Trains models on {} with the same budget; one table and page.", task.title),
       {typed + " --attention transformer,transnormer-t2 --minutes 2",
        typed + " --attention softmax,norm,diag --steps 500 --out runs/mine"}},
      [options, &task](const Console& console) { run(task, *options, console); }, &group);
  program.share_last();
  add_options(verb, task, *options);
}

void add_every(Program& program, const Arguments& group) {
  const auto options = std::make_shared<LraOptions>();
  const Arguments verb = program.add(
      {"all",
       "Trains models on every task of the arena whose data is there.",
       {"fovea lra all --data DIR --minutes 2", "fovea lra all --resume FOLDER --data DIR"}},
      [options](const Console& console) { run_every(*options, console); }, &group);
  add_options(verb, arena_tasks().front(), *options);
}

}  // namespace

void add_lra(Program& program) {
  const Arguments group = program.add_group({"lra",
                                             "Trains and compares models on the Long-Range Arena.",
                                             {"fovea lra listops --minutes 2", "fovea lra listops --help"}});
  for (const ArenaTask& task : arena_tasks()) add_task(program, group, task);
  add_every(program, group);
}

}  // namespace fovea::cli
