#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "bench/outcome.h"
#include "bench/rows.h"
#include "io/section.h"
#include "measure/rounds.h"

// Every row of the benchmark table in one run. Exits with 1 when a bar is missed.
namespace fovea::bench {
namespace {

struct Options {
  int threads = 0;
  int rounds = 5;
  std::string only;   // rows whose text contains this
  std::string write;  // file for the table
};

class Benchmark {
 public:
  explicit Benchmark(const Options& options) : options_(options), context_({.threads = options.threads}) {
    results_.threads = context_.threads();
  }

  Results run() {
    fmt::print("{:<52}{:>8}{:>8}{:>10}\n", "work", "ms", "reached", "bar");
    run_rates();
    run_growth();
    run_packed();
    run_memory();
    run_steps();
    results_.anchor = median(anchors_);
    return results_;
  }

 private:
  bool wanted(const std::string& work) const { return work.find(options_.only) != std::string::npos; }

  void add(Outcome outcome) {
    fmt::print("{}\n", outcome_line(outcome));
    std::fflush(stdout);
    results_.outcomes.push_back(std::move(outcome));
  }

  RoundReport measure(std::span<const TimedCase> cases, int rounds) {
    RoundOptions options;
    options.rounds = rounds;
    RoundReport report = measure_rounds(context_, cases, options);
    anchors_.push_back(report.anchor);
    results_.rounds += report.rounds;
    results_.repeated += report.repeated;
    return report;
  }

  TimedCase timed(const std::string& name, Pass pass, const AttentionProblem& problem, std::optional<Isa> isa) {
    const auto attention = std::make_shared<AttentionCase>(context_, problem, random_data(context_, problem));
    const double flops = (pass != Pass::backward ? problem.forward_flops() : 0.0) +
                         (pass != Pass::forward ? problem.backward_flops() : 0.0);
    const Isa best = chosen_isa();
    return {name, flops, [attention, pass, isa, best] {
              if (isa) force_isa(*isa);
              const double seconds = pass == Pass::forward    ? attention->forward()
                                     : pass == Pass::backward ? attention->backward()
                                                              : attention->both();
              if (isa) force_isa(best);
              return seconds;
            }};
  }

  void run_rates() {
    std::vector<RateRow> rows = rate_rows();
    std::erase_if(rows, [&](const RateRow& row) { return !wanted(row.work); });
    for (auto begin = rows.begin(); begin != rows.end();) {
      const auto end = std::find_if(begin, rows.end(), [&](const RateRow& row) { return row.group != begin->group; });
      run_group({begin, end});
      begin = end;
    }
  }

  void run_group(std::span<const RateRow> rows) {
    std::vector<TimedCase> cases;
    for (const RateRow& row : rows) cases.push_back(timed(row.work, row.pass, row.problem, row.isa));
    const RoundReport report = measure(cases, options_.rounds);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Timing& timing = report.cases[i];
      add({rows[i].work, Outcome::Unit::share, timing.share, rows[i].bar, timing.seconds, timing.rate});
    }
  }

  void run_growth() {
    for (const GrowthRow& row : growth_rows()) {
      const std::string work = fmt::format("growth {} -> {}: {}", kShort, kLong, row.work);
      if (!wanted(work)) continue;
      AttentionProblem longer = row.problem;
      longer.n = kLong;
      const std::vector<TimedCase> cases{timed("short", row.pass, row.problem, {}),
                                         timed("long", row.pass, longer, {})};
      const RoundReport report = measure(cases, std::max(3, options_.rounds / 2));
      const double seconds = report.cases[1].seconds;
      add({work, Outcome::Unit::ratio, seconds / report.cases[0].seconds, kGrowthBar, seconds, 0.0});
    }
  }

  void run_packed() {
    for (const PackedRow& row : packed_rows()) {
      const std::string even = row.work + ", against even ones", alone = row.work + ", against one by one";
      if (!wanted(even) && !wanted(alone)) continue;
      const std::vector<TimedCase> cases{timed("packed", Pass::both, row.packed, {}),
                                         timed("even", Pass::both, row.even, {}), one_by_one(row.packed)};
      const RoundReport report = measure(cases, std::max(3, options_.rounds));
      const double seconds = report.cases[0].seconds;
      add({even, Outcome::Unit::ratio, seconds / report.cases[1].seconds, kPackedBar, seconds, 0.0});
      add({alone, Outcome::Unit::ratio, seconds / report.cases[2].seconds, kAloneBar, seconds, 0.0});
    }
  }

  // The sequences of a packed batch, a call for each.
  TimedCase one_by_one(const AttentionProblem& packed) {
    std::vector<std::shared_ptr<AttentionCase>> calls;
    for (const std::int32_t length : packed.packed) {
      AttentionProblem problem = packed;
      problem.packed.clear();
      problem.n = length;
      calls.push_back(std::make_shared<AttentionCase>(context_, problem, random_data(context_, problem)));
    }
    return {"one by one", 0.0, [calls] {
              double seconds = 0.0;
              for (const auto& call : calls) seconds += call->both();
              return seconds;
            }};
  }

  void run_memory() {
    const std::string work = "softmax forward + backward, n 65536, 1 head: extra";
    if (!wanted(work)) return;
    const AttentionProblem problem = memory_problem();
    AttentionCase attention(context_, problem, random_data(context_, problem));
    const auto bytes = static_cast<double>(attention.peak_memory(true));
    add({work, Outcome::Unit::bytes, bytes, kMemoryBar, 0.0, 0.0});
  }

  void run_steps() {
    for (const char* model : {"transformer", "transnormer-t2"}) {
      const std::string work = fmt::format("train step, {}: attention + gemm", model);
      if (!wanted(work)) continue;
      const StepTiming step = time_train_step(model, context_.threads());
      results_.steps.push_back(step);
      add({work, Outcome::Unit::share, step.share("attention") + step.share("gemm"), kStepBar, step.seconds, 0.0});
      fmt::print("{}\n", step_line(step));
    }
  }

  Options options_;
  Context context_;
  Results results_;
  std::vector<double> anchors_;
};

int run(const Options& options, const std::string& command) {
  Results results = Benchmark(options).run();
  results.command = command;
  fmt::print("\nsgemm 2048^3: {:.0f} GFLOP/s; {} rounds, {} more repeated; {} of {} bars missed\n",
             results.anchor / 1e9, results.rounds, results.repeated, results.missed(), results.outcomes.size());
  if (!options.write.empty())
    write_file(options.write, markdown(results) + "\n" + from_marker(read_if_there(options.write), kMechanismSection));
  return results.missed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fovea::bench

int main(int argc, char** argv) {
  fovea::bench::Options options;
  CLI::App app("Times the kernels against the matrix-product rate of this machine.", "fovea_bench");
  app.add_option("--threads", options.threads, "threads [all cores]");
  app.add_option("--rounds", options.rounds, "rounds of each group")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--only", options.only, "only rows whose text contains this");
  app.add_option("--write", options.write, "write the table to this file as Markdown (docs/bench.md)");
  CLI11_PARSE(app, argc, argv);
  std::string command = "fovea_bench";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  try {
    return fovea::bench::run(options, command);
  } catch (const fovea::Error& error) {
    fmt::print(stderr, "fovea_bench: {}\n", error.what());
    return fovea::exit_code(error.code());
  }
}
