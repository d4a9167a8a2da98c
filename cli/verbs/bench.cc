#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "cli/kit/load_warning.h"
#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "cli/verbs/bench_growth.h"
#include "cli/verbs/bench_problem.h"
#include "core/isa.h"
#include "measure/machine.h"
#include "measure/rounds.h"
#include "mechanisms/kind.h"

// fovea bench attention: mechanisms x lengths x passes, in alternating rounds.
namespace fovea::cli {
namespace {

struct BenchOptions {
  MachineOptions machine;
  BenchProblem problem;
  std::string attention, lengths, out, docs;
  std::int64_t rounds = 5;
  bool backward = false, all = false;

  void fill_in() {
    if (lengths.empty()) lengths = all ? "4096,8192,16384,32768" : "1024,4096";
    problem.default_heads(all ? 4 : 8);
    backward = backward || all;
  }
};

constexpr double kPatience = 5.0;  // seconds of one run, of --all

// What is too slow at length n: quadratic mechanisms beyond kLastQuadratic, and those that took long at the length
// before. Softmax stands for them.
bool too_long(const BenchOptions& options, const std::vector<BenchRow>& before, std::string_view name, std::int64_t n) {
  if (!options.all || name == "softmax") return false;
  const bool quadratic = !Mechanism(name).kind().subquadratic;
  double seconds = 0.0;
  for (const BenchRow& row : before)
    if (row.mechanism == name && row.n == before.back().n)
      seconds += row.timing.seconds * std::pow(static_cast<double>(n) / static_cast<double>(row.n), quadratic ? 2 : 1);
  return seconds > kPatience || (quadratic && n > kLastQuadratic && !has_rate_bar(name));
}

std::vector<std::string> chosen_mechanisms(const BenchOptions& options, const std::vector<BenchRow>& before,
                                           std::int64_t n) {
  if (!options.attention.empty()) return split_names(options.attention, "--attention");
  std::vector<std::string> names;
  for (std::string_view name : mechanism_names())
    if (!too_long(options, before, name, n) && (!options.problem.causal || Mechanism(name).supports(Feature::causal)))
      names.emplace_back(name);
  return names;
}

// Mechanisms of one length share their inputs and alternate in the same rounds.
class LengthBench {
 public:
  LengthBench(Context& context, const BenchOptions& options, const std::vector<std::string>& names, std::int64_t n)
      : context_(context), options_(options) {
    const AttentionData data = random_data(context, options.problem.problem(names.front(), n));
    for (const std::string& name : names)
      cases_.push_back(std::make_shared<AttentionCase>(context, options.problem.problem(name, n), data));
  }

  std::vector<BenchRow> run(const Console& console) {
    std::vector<BenchRow> rows;
    std::vector<TimedCase> timed;
    for (const auto& attention : cases_) add(attention, rows, timed);
    const RoundReport report = measure_rounds(context_, timed, round_options(console, timed));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].timing = report.cases[i];
      rows[i].anchor = report.anchor;
    }
    return rows;
  }

 private:
  void add(const std::shared_ptr<AttentionCase>& attention, std::vector<BenchRow>& rows,
           std::vector<TimedCase>& timed) const {
    const AttentionProblem& problem = attention->problem();
    for (const bool backward : {false, true}) {
      if (backward && !options_.backward) continue;
      BenchRow& row = rows.emplace_back();
      row.mechanism = problem.mechanism.text();
      row.n = problem.n;
      row.pass = backward ? "backward" : "forward";
      row.peak_memory = attention->peak_memory(backward);
      timed.push_back({row.mechanism + " " + row.pass, backward ? problem.backward_flops() : problem.forward_flops(),
                       [attention, backward] { return backward ? attention->backward() : attention->forward(); }});
    }
  }

  RoundOptions round_options(const Console& console, const std::vector<TimedCase>& timed) const {
    RoundOptions options;
    options.rounds = static_cast<int>(options_.rounds);
    options.progress = [&console, &timed, n = cases_.front()->problem().n](std::size_t i, std::size_t done,
                                                                           std::size_t expected) {
      console.detail(fmt::format("n {}: {} of {}: {}", n, done, expected, timed[i].name));
    };
    return options;
  }

  Context& context_;
  const BenchOptions& options_;
  std::vector<std::shared_ptr<AttentionCase>> cases_;
};

std::string describe(const BenchOptions& options, const Context& context) {
  return fmt::format("{}, {} thread{}", options.problem.text(), context.threads(), context.threads() == 1 ? "" : "s");
}

void show(const BenchOptions& options, const BenchReport& report, const Console& console) {
  console.document(bench_json(report));
  if (options.all) {
    const GrowthReport growth = growth_of(report);
    console.print(growth_text(growth));
    if (!options.docs.empty()) write_growth(growth, options.docs);
  } else {
    console.print(bench_text(report));
  }
  if (options.out.empty()) return;
  write_bench(report, options.out);
  console.note(fmt::format("report: {}/report.html", options.out));
}

void run(const BenchOptions& options, const Console& console) {
  Context context(options.machine.context(console));
  const LoadMeter load;
  BenchReport report;
  report.command = console.command;
  report.setting = describe(options, context);
  report.machine = this_machine().text();
  for (const std::int64_t n : split_numbers(options.lengths, "--n")) {
    console.note(fmt::format("timing n {}", n));
    const std::vector<std::string> names = chosen_mechanisms(options, report.rows, n);
    const std::vector<BenchRow> rows = LengthBench(context, options, names, n).run(console);
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  }
  warn_of_load(load, console, report.warnings);
  show(options, report, console);
}

void add_options(const Arguments& verb, BenchOptions& o) {
  const Option some = verb.add_option("--attention", o.attention, "mechanisms to time [all]").type_name("A,B");
  const Option all =
      verb.add_flag("--all", o.all, "how each grows with n, 4096 to 32768, 4 heads, with gradients").excludes(some);
  verb.add_option("--n", o.lengths, "sequence lengths [1024,4096]").type_name("N,N");
  add_problem_options(verb, o.problem);
  verb.add_flag("--backward", o.backward, "also the gradients");
  verb.add_option("--rounds", o.rounds, "rounds that medians are taken over")
      .type_name("N")
      .check(in_range(1, 1 << 24))
      .show_default();
  verb.add_option("--docs", o.docs, "folder whose bench.md and measured figures --all renews")
      .type_name("FOLDER")
      .needs(all);
  verb.add_option("--out", o.out, "folder for report.html, PNG and CSV").type_name("FOLDER");
  verb.add_option("--seed", o.machine.seed, "of the inputs").type_name("N").show_default();
  add_machine_options(verb, o.machine);
}

}  // namespace

void add_bench(Program& program) {
  const Arguments group =
      program.add_group({"bench",
                         "Times attention mechanisms and models on this machine.",
                         {"fovea bench attention --n 1024,4096 --backward", "fovea bench attention --help"}});
  const auto options = std::make_shared<BenchOptions>();
  const Arguments verb = program.add(
      {"attention",
       "Times mechanisms: milliseconds, GFLOP/s, share of the sgemm rate of the same round, and "
       "peak memory.",
       {"fovea bench attention --n 1024,4096 --backward", "fovea bench attention --all"}},
      [options](const Console& console) {
        options->fill_in();
        run(*options, console);
      },
      &group);
  add_options(verb, *options);
  add_bench_threads(program, group);
  add_bench_decode(program, group);
}

}  // namespace fovea::cli
