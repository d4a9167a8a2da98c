#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/kit/interrupt.h"
#include "cli/kit/options.h"
#include "cli/kit/run_progress.h"
#include "cli/kit/verb.h"
#include "cli/verbs/reproduce_jobs.h"
#include "core/cores.h"
#include "experiment/reproduce/runner.h"
#include "experiment/reproduce/study_report.h"

// fovea reproduce: published tables, run again beside what was published.
namespace fovea::cli {
namespace {

struct ReproduceOptions {
  MachineOptions machine;
  StudyChoices choices;
  std::string out, seeds, rows, columns, join, report;
  std::int64_t jobs = 1;
};

void list_studies(const Console& console) {
  Json list = Json::array();
  std::string text;
  for (const Study& study : studies()) {
    text += fmt::format("{:<17} {}\n", study.name, study.title);
    list.push_back({{"name", study.name},
                    {"title", study.title},
                    {"source", study.source},
                    {"rows", study.rows.size()},
                    {"columns", study.columns.size()}});
  }
  console.print(text + "\nfovea reproduce NAME --quick --data DIR runs one in minutes; without --quick as published");
  console.document(list);
}

// Says where a study is, a line for each cell; the training below it has bars of its own.
class StudyLines : public StudyObserver {
 public:
  explicit StudyLines(const Console& console) : console_(console) {}

  void on_cell(const std::string& name, std::size_t done, std::size_t all) override {
    console_.note(fmt::format("[{}/{}] {}", done + 1, all, name));
  }
  void on_outcome(const std::string& name, const Outcome& outcome) override {
    std::string values;
    for (const NamedValue& value : outcome.values)
      values += fmt::format("{}{} {}", values.empty() ? "" : ", ", value.name, number_text(value.value));
    console_.note(fmt::format("{}: {} ({}, {:.0f} s)", name, outcome.trouble.empty() ? values : outcome.trouble,
                              outcome.budget(), outcome.seconds));
  }
  void on_failure(const std::string& name, const Error& error) override {
    console_.note(fmt::format("{}: {} ({})", name, error.message(), error.where()));
  }

 private:
  const Console& console_;
};

// What other processes do is not drawn: bars of several would overwrite each other.
class NoBars : public RunObserver {};

void refuse_failures(const std::vector<FailedCell>& failed) {
  if (failed.empty()) return;
  const Error& first = failed.front().error;
  fail(first.code(), fmt::format("{} of the cells failed; {}: {}", failed.size(), failed.front().name, first.message()),
       first.where(), first.hint());
}

std::vector<FailedCell> work(const StudyPlan& plan, const ReproduceOptions& options, const Console& console) {
  const Interrupt interrupt;
  StudyLines lines(console);
  RunProgress bars(console);
  NoBars none;
  const bool joined = !options.join.empty();
  return run_cells(plan,
                   {.machine = options.machine.context(console),
                    .observer = joined ? static_cast<RunObserver&>(none) : bars,
                    .stop = &interrupt.requested(),
                    .resume_command = "the same command goes on"},
                   lines);
}

bool by_the_clock(const StudyPlan& plan) {
  if (plan.choices().minutes > 0.0) return true;
  const std::vector<StudyCell>& cells = plan.cells();
  return std::any_of(cells.begin(), cells.end(), [&](const StudyCell& cell) {
    return plan.study().trials[cell.trial].kind == TrialKind::speed || plan.settings(cell).train.minutes > 0.0;
  });
}

// Each job is a process that takes cells as --join does.
void work_in_jobs(const StudyPlan& plan, const ReproduceOptions& options) {
  if (by_the_clock(plan))
    fail(ErrorCode::usage, "times are measured, and would be those of several runs at once", "--jobs", "--jobs 1");
  const std::int64_t threads =
      options.machine.threads > 0 ? options.machine.threads : std::max<std::int64_t>(1, usable_cores() / options.jobs);
  std::vector<std::string> words = {"reproduce",
                                    "--join",
                                    plan.folder().string(),
                                    "--device",
                                    options.machine.device,
                                    "--threads",
                                    fmt::format("{}", threads)};
  if (!options.machine.memory_limit.empty())
    words.insert(words.end(), {"--memory-limit", options.machine.memory_limit});
  if (options.machine.tf32) words.emplace_back("--tf32");
  const Interrupt interrupt;  // theirs to obey; this process waits for them
  const int code = run_jobs(std::min<std::int64_t>(options.jobs, std::ssize(plan.cells())), words);
  if (interrupt.requested())
    fail(ErrorCode::interrupted, "stopped; everything is saved", plan.folder().string(), "the same command goes on");
  if (code != 0)
    fail(ErrorCode::internal, "a job failed: see above", plan.folder().string(),
         "the same command tries its cells again");
}

void report(const StudyPlan& plan, const Console& console) {
  const StudyResults results(plan);
  const Terminal terminal = Terminal::of(STDOUT_FILENO);
  for (std::size_t i = 0; i < plan.study().columns.size(); ++i)
    if (results.has_column(i)) console.print("\n" + results.details(i).text(terminal));
  for (const std::string& note : study_notes(results)) console.note(note);
  console.document(results.json());
  write_study(results, console.command);
  const Path above = std::filesystem::absolute(plan.folder()).lexically_normal().parent_path();
  write_front_page(above);
  console.note(
      fmt::format("report: {}/report.html, all that ran: {}", plan.folder().string(), (above / "index.html").string()));
}

void run_study(ReproduceOptions options, const Console& console) {
  StudyChoices& choices = options.choices;
  if (!options.seeds.empty()) choices.seeds = parse_seeds(options.seeds);
  const Study& study = study_named(choices.study);
  if (!options.rows.empty()) choices.rows = study.split_rows(options.rows);
  if (!options.columns.empty()) choices.columns = study.split_columns(options.columns);
  if (!choices.data.empty() && !is_folder(choices.data))
    fail(ErrorCode::bad_input, fmt::format("no folder \"{}\"", choices.data), "--data",
         "a folder of data sets: see docs/reproduce");
  if (!choices.data.empty()) choices.data = std::filesystem::absolute(choices.data).lexically_normal().string();
  const StudyPlan plan(choices, options.out.empty() ? default_study_folder(choices) : options.out);
  console.note(fmt::format("{}: {} cells in {}", plan.study().title, plan.cells().size(), plan.folder().string()));
  std::vector<FailedCell> failed;
  try {
    if (options.jobs > 1)
      work_in_jobs(plan, options);
    else
      failed = work(plan, options, console);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) report(plan, console);  // of what is there
    throw;
  }
  report(plan, console);
  refuse_failures(failed);
}

void run(const ReproduceOptions& options, const Console& console) {
  if (!options.report.empty()) return report(StudyPlan::load_finished(options.report), console);
  if (!options.join.empty()) return refuse_failures(work(StudyPlan::load(options.join), options, console));
  if (options.choices.study.empty()) return list_studies(console);
  run_study(options, console);
}

}  // namespace

void add_reproduce(Program& program) {
  const auto options = std::make_shared<ReproduceOptions>();
  const Arguments verb = program.add(
      {"reproduce",
       "Runs a published table again and shows paper, ours, difference and budget; without a name lists the tables.",
       {"fovea reproduce table-6 --quick --data DIR", "fovea reproduce table-6 --seeds 3 --device cuda"}},
      [options](const Console& console) { run(*options, console); });
  StudyChoices& choices = options->choices;
  verb.add_option("TABLE", choices.study, "which: fovea reproduce lists them");
  verb.add_flag("--quick", choices.quick, "in minutes on two cores: smaller models, fewer steps, one seed");
  verb.add_option("--data", choices.data, "folder of data sets: imdb, cifar10, wikitext-2, glue, ett, ...")
      .type_name("DIR");
  verb.add_option("--out", options->out, "folder of the runs; the same goes on [runs/TABLE]").type_name("FOLDER");
  verb.add_option("--seeds", options->seeds, "how many, or which: 3 or 1,2,5 [as the table has it]").type_name("N");
  verb.add_option("--rows", options->rows, "only these rows").type_name("A,B");
  verb.add_option("--columns", options->columns, "only these columns").type_name("A,B");
  verb.add_option("--steps", choices.steps, "training steps of each run").type_name("N").check(in_range(1, 1e12));
  verb.add_option("--minutes", choices.minutes, "training time of each run").type_name("M").check(in_range(1e-4, 1e7));
  verb.add_option("--set", choices.set, "change one setting of all runs (repeatable)")
      .type_name("NAME=VALUE")
      .repeatable();
  verb.add_flag("--parts", choices.parts, "take data that is not whole, and say so in the cells");
  verb.add_option("--jobs", options->jobs, "runs side by side, each a process")
      .type_name("N")
      .check(in_range(1, 256))
      .show_default();
  verb.add_option("--join", options->join, "run cells of this folder that nobody is at work on").type_name("FOLDER");
  verb.add_option("--report", options->report, "run nothing: write the report of what this folder has")
      .type_name("FOLDER");
  add_machine_options(verb, options->machine);
}

}  // namespace fovea::cli
