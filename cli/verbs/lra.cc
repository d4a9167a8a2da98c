#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "cli/kit/interrupt.h"
#include "cli/kit/run_options.h"
#include "cli/kit/run_progress.h"
#include "cli/kit/verb.h"
#include "experiment/comparison.h"
#include "experiment/profile_text.h"
#include "experiment/run_text.h"
#include "experiment/tasks.h"

// fovea lra: several models on one task of the Long-Range Arena, each with the same budget.
namespace fovea::cli {
namespace {

struct LraOptions {
  RunOptions run;
  std::string attention = "transformer,transnormer-t2";
  std::string protocol;
  std::string resume;
};

ComparisonPlan plan_of(const ArenaTask& task, const LraOptions& options) {
  if (!options.resume.empty()) return load_comparison(options.resume);
  const RunChoices choices = options.run.choices();
  if (!task.files.empty() && !choices.data && choices.config.empty())
    fail(ErrorCode::usage, fmt::format("{} needs its data", task.title), "--data", std::string(task.files));
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

void run(const ArenaTask& task, const LraOptions& options, const Console& console) {
  const ComparisonPlan plan = plan_of(task, options);
  RunProgress progress(console, longest(plan.models));
  const ContextOptions machine = options.run.machine.context(console);
  const Comparison comparison(plan, machine, progress);
  console.note(describe_data(comparison.data()));
  CompareReport report =
      run_all(comparison, {.machine = machine,
                           .observer = progress,
                           .resume_command = fmt::format("fovea lra {} --resume {}", task.name, plan.folder),
                           .profile = options.run.profile});
  report.command = console.command;
  console.print("\n" + results_table(report.results).text(Terminal::of(STDOUT_FILENO)));
  for (const RunResult& result : report.results)
    if (result.profile)
      console.print("\n" + result.name + "\n" + profile_text(*result.profile, Terminal::of(STDOUT_FILENO)));
  console.document(compare_json(report));
  write_comparison(report, plan.folder);
  console.note(fmt::format("report: {}/report.html", plan.folder));
}

void add_task(Program& program, const Arguments& group, const ArenaTask& task) {
  const auto options = std::make_shared<LraOptions>();
  options->protocol = task.protocols.front().name;
  const std::string typed = fmt::format("fovea lra {}{}", task.name, task.files.empty() ? "" : " --data FOLDER");
  const Arguments verb = program.add(
      {std::string(task.name),
       fmt::format("Trains models on {}, each with the same budget, and compares them in a table and a report page.",
                   task.title),
       {typed + " --attention transformer,transnormer-t2 --minutes 2",
        typed + " --attention softmax,norm,diag --steps 500 --out runs/mine"}},
      [options, &task](const Console& console) { run(task, *options, console); }, &group);
  verb.add_option("--attention", options->attention, "models or mechanisms (fovea list)")
      .type_name("A,B")
      .show_default();
  std::vector<std::string_view> names;
  for (const TaskProtocol& protocol : task.protocols) names.push_back(protocol.name);
  verb.add_option("--protocol", options->protocol, fmt::format("model and training: {}", fmt::join(names, ", ")))
      .type_name("NAME")
      .show_default();
  verb.add_option("--resume", options->resume, "continue the comparison in this folder").type_name("FOLDER");
  add_run_options(verb, options->run);
}

}  // namespace

void add_lra(Program& program) {
  const Arguments group = program.add_group({"lra",
                                             "Trains and compares models on the Long-Range Arena.",
                                             {"fovea lra listops --minutes 2", "fovea lra listops --help"}});
  for (const ArenaTask& task : arena_tasks()) add_task(program, group, task);
}

}  // namespace fovea::cli
