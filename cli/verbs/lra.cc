#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "cli/kit/interrupt.h"
#include "cli/kit/run_options.h"
#include "cli/kit/run_progress.h"
#include "cli/kit/verb.h"
#include "experiment/comparison.h"
#include "experiment/profile_text.h"
#include "experiment/reproduce/known_sets.h"
#include "experiment/run_folder.h"
#include "experiment/run_text.h"
#include "experiment/tasks.h"

// fovea lra: several models on one task of the Long-Range Arena, each with the same budget.
namespace fovea::cli {
namespace {

struct LraOptions {
  RunOptions run;
  std::string attention = "transformer,transnormer-t2,diag:block=64";  // the last reads its neighbours alone
  std::string protocol;
  std::string resume;
};

ComparisonPlan plan_of(const ArenaTask& task, const LraOptions& options) {
  if (!options.resume.empty()) return load_comparison(options.resume);
  const RunChoices choices = options.run.choices();
  if (!task.files.empty() && !choices.data && choices.config.empty())
    fail(ErrorCode::usage, fmt::format("{} needs its data", task.title), "--data", std::string(task.files));
  if (choices.data && is_there(*choices.data)) refuse_half_copied(*choices.data);
  return plan_comparison(task.protocol(options.protocol), split_names(options.attention, "--attention"), choices);
}

std::size_t longest(const std::vector<std::string>& names) {
  std::size_t length = 0;
  for (const std::string& name : names) length = std::max(length, name.size());
  return length;
}

CompareReport run_all(const Comparison& comparison, RunEnvironment environment) {
  const Interrupt interrupt;
  environment.stop = &interrupt.requested();
  return comparison.run(std::move(environment));
}

Json run(const ArenaTask& task, const LraOptions& options, const Console& console) {
  const ComparisonPlan plan = plan_of(task, options);
  RunProgress progress(console, longest(plan.models), options.run.json_lines);
  const ContextOptions machine = options.run.machine.context(console);
  const Comparison comparison(plan, machine, progress);
  console.note(describe_data(comparison.data()));
  CompareReport report =
      run_all(comparison, {.machine = machine,
                           .observer = progress,
                           .resume_command = fmt::format("fovea lra {} --resume {}", task.name, plan.folder),
                           .profile = options.run.profile});
  report.command = console.command;
  console.print("\n" + comparison_table(report).text(Terminal::of(STDOUT_FILENO)));
  for (const RunResult& result : report.results)
    if (result.profile)
      console.print("\n" + result.name + "\n" + profile_text(*result.profile, Terminal::of(STDOUT_FILENO)));
  console.document(compare_json(report));
  write_comparison(report, plan.folder);
  console.note(fmt::format("report: {}/report.html", plan.folder));
  return compare_json(report);
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
  options.run.typed.data.reset();
  options.run.typed.out = (folder / task.name).string();
  if (is_there(folder / task.name / kComparisonFile)) options.resume = *options.run.typed.out;
  if (task.files.empty()) return options;
  for (const std::string& set : sets_of(task))
    if (!options.run.typed.data && all.run.typed.data)
      if (const auto place = find_set(known_set(set), *all.run.typed.data)) options.run.typed.data = place->string();
  return options.run.typed.data ? std::optional(options) : std::nullopt;
}

void run_every(const LraOptions& options, const Console& console) {
  const Path folder = options.resume.empty() ? options.run.typed.out.value_or(default_folder("lra")) : options.resume;
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
    const bool stand_in = part->run.typed.data && Path(*part->run.typed.data).filename() == "acl-retrieval";
    console.note(fmt::format("\n{}{}", task.title, stand_in ? ": a stand-in, not the arena's set" : ""));
    documents[std::string(task.name)] = run(task, *part, told);
  }
  console.document(documents);
}

void add_options(const Arguments& verb, const ArenaTask& task, LraOptions& options) {
  verb.add_option("--attention", options.attention, "models or mechanisms (fovea list)")
      .type_name("A,B")
      .show_default();
  std::vector<std::string_view> names;
  for (const TaskProtocol& protocol : task.protocols) names.push_back(protocol.name);
  options.protocol = names.front();
  verb.add_option("--protocol", options.protocol, fmt::format("model and training: {}", fmt::join(names, ", ")))
      .type_name("NAME")
      .show_default();
  verb.add_option("--resume", options.resume, "continue the comparison in this folder").type_name("FOLDER");
  add_run_options(verb, options.run);
}

void add_task(Program& program, const Arguments& group, const ArenaTask& task) {
  const auto options = std::make_shared<LraOptions>();
  const std::string typed = fmt::format("fovea lra {}{}", task.name, task.files.empty() ? "" : " --data FOLDER");
  const Arguments verb = program.add(
      {std::string(task.name),
       fmt::format("Trains models on {}, each with the same budget, and compares them in a table and a report page.",
                   task.title),
       {typed + " --attention transformer,transnormer-t2 --minutes 2",
        typed + " --attention softmax,norm,diag --steps 500 --out runs/mine"}},
      [options, &task](const Console& console) { run(task, *options, console); }, &group);
  add_options(verb, task, *options);
}

void add_every(Program& program, const Arguments& group) {
  const auto options = std::make_shared<LraOptions>();
  const Arguments verb = program.add(
      {"all",
       "Trains models on every task of the arena whose data is there, one after the other.",
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
