#include "cli/kit/run_comparison.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/kit/interrupt.h"
#include "cli/kit/run_progress.h"
#include "experiment/compare_tables.h"
#include "experiment/health_text.h"
#include "experiment/inspect_runs.h"
#include "experiment/profile_text.h"
#include "experiment/reproduce/plan.h"
#include "experiment/run_folder.h"
#include "experiment/run_text.h"

namespace fovea::cli {
namespace {

std::size_t longest_name(const ComparisonPlan& plan) {
  std::size_t length = 0;
  for (std::size_t m = 0; m < plan.models.size(); ++m)
    for (std::size_t s = 0; s < plan.seeds.size(); ++s) length = std::max(length, plan.run_name(m, s).size());
  return length;
}

void print_tables(const CompareReport& report, const Console& console) {
  const Terminal terminal = Terminal::of(STDOUT_FILENO);
  console.print("\n" + comparison_table(report).text(terminal));
  console.print("\n" + course_table(report).text(terminal));
  if (const auto lengths = length_table(report)) console.print("\naccuracy by length\n" + lengths->text(terminal));
  for (const RivalReport& rival : report.rivals)
    for (const RunResult& result : rival.results) {
      if (result.profile) console.print(result.name + "\n" + profile_text(*result.profile, terminal));
      if (result.health) console.print(result.name + "\n" + health_text(*result.health, terminal));
    }
}

// A page of what the models read, of one seed each, beside the report. Models that cannot be looked at do not spoil the
// comparison.
void add_inspect_page(const Comparison& comparison, const ContextOptions& machine, const Console& console,
                      CompareReport& report) {
  constexpr const char* kPage = "inspect.html";
  std::vector<FinishedRun> runs;
  for (const RivalReport& rival : report.rivals) runs.push_back({rival.name, rival.settings.front().train.out});
  try {
    write_inspect_page(runs, comparison.data(), machine, Path(comparison.plan().folder) / kPage);
    report.links.push_back({"What the heads of the models read, side by side", kPage});
    console.note(fmt::format("what the models read: {}/{}", comparison.plan().folder, kPage));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    console.note(fmt::format("no page of what the models read: {}", error.message()));
  }
}

Json tell(const Comparison& comparison, const RunEnvironment& environment, const Console& console) {
  CompareReport report = comparison.report();
  if (report.rivals.empty()) return {};
  report.command = console.command;
  print_tables(report, console);
  const Json document = compare_json(report);
  console.document(document);
  if (environment.mesh.leads()) {
    if (report.finished() == report.planned) add_inspect_page(comparison, environment.machine, console, report);
    write_comparison(report, comparison.plan().folder);
  }
  for (const std::string& warning : comparison_warnings(report)) console.note(warning);
  console.note(fmt::format("report: {}/report.html", comparison.plan().folder));
  return document;
}

}  // namespace

ComparisonChoices ComparisonOptions::choices(const std::string& task) const {
  ComparisonChoices choices{.task = task, .run = run.choices()};
  if (!model.empty()) choices.models = split_names(model, "--model");
  if (!attention.empty()) choices.attention = split_names(attention, "--attention");
  if (!seeds.empty()) choices.seeds = parse_seeds(seeds);
  return choices;
}

void add_comparison_options(const Arguments& verb, ComparisonOptions& options) {
  verb.add_option("--attention", options.attention, "rivals: mechanisms or presets; layers of one: diag/norm*2")
      .type_name("A,B")
      .show_default();
  verb.add_option("--seeds", options.seeds, "train each with so many seeds, or with these: 3 or 1,2,5").type_name("N");
  verb.add_option("--resume", options.resume, "continue the comparison in this folder").type_name("FOLDER");
  add_run_options(verb, options.run);
  add_training_rank_options(verb, options.ranks);
}

ComparisonPlan resumed_comparison(const ComparisonOptions& options) {
  if (options.run.any())
    fail(ErrorCode::usage, "--resume continues a comparison as it is", "--resume",
         "--resume " + options.resume + " alone; a new comparison for other settings");
  return load_comparison(options.resume);
}

ComparisonPlan new_comparison(const Protocol& protocol, const ComparisonChoices& choices,
                              const ComparisonOptions& options, const Console& console) {
  const dist::Mesh mesh = options.ranks.mesh_of(console);
  ComparisonPlan plan = plan_comparison(protocol, choices);
  set_folder(plan, first_ranks(mesh, plan.folder));
  if (mesh.leads()) require_new_folder(plan.folder);
  for (RunSettings& settings : plan.runs) divide_batch(mesh, console, settings);
  return plan;
}

Json run_comparison(const ComparisonPlan& plan, const ComparisonOptions& options, const Console& console) {
  RunProgress progress(console, longest_name(plan), options.run.json_lines);
  const Interrupt interrupt;
  const RunEnvironment environment{.machine = options.run.machine.context(console),
                                   .observer = progress,
                                   .stop = &interrupt.requested(),
                                   .resume_command = "fovea compare --resume " + plan.folder,
                                   .watch = options.run.watch(),
                                   .warn = [&progress](const std::string& text) { progress.set_warning(text); },
                                   .mesh = options.ranks.mesh_of(console)};
  const Comparison comparison(plan, environment.machine, progress, environment.mesh);
  console.note(describe_data(comparison.data()));
  try {
    comparison.run(environment);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) tell(comparison, environment, console);
    throw;
  }
  return tell(comparison, environment, console);
}

}  // namespace fovea::cli
