#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/kit/load_warning.h"
#include "cli/kit/options.h"
#include "cli/kit/progress.h"
#include "cli/kit/verb.h"
#include "cli/verbs/bench_problem.h"
#include "cli/verbs/threads_report.h"
#include "gemm/rate.h"
#include "measure/copy_rate.h"
#include "measure/machine.h"
#include "mechanisms/kind.h"

// fovea bench threads: what each mechanism gains from more threads, beside what products and copies gain.
namespace fovea::cli {
namespace {

struct ThreadsOptions {
  MachineOptions machine;
  BenchProblem problem;
  std::string attention, counts, out;
  std::int64_t n = 4096, rounds = 5;
};

constexpr std::int64_t kMostThreads = 1024;

// 1, 2, 4, ... and as many as there may be.
std::vector<std::int64_t> counts_of(const ThreadsOptions& options, std::int64_t most) {
  std::vector<std::int64_t> counts;
  if (options.counts.empty()) {
    for (std::int64_t count = 1; count < most; count *= 2) counts.push_back(count);
    counts.push_back(most);
  } else {
    counts = split_numbers(options.counts, "--counts");
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  }
  if (counts.size() < 2)
    fail(ErrorCode::usage, fmt::format("one number of threads ({}) has nothing to be compared with", counts.front()),
         "--counts", "give several: --counts 1,2");
  if (counts.back() > kMostThreads)
    fail(ErrorCode::usage, fmt::format("expected at most {} threads, got {}", kMostThreads, counts.back()), "--counts");
  return counts;
}

std::vector<std::string> names_of(const ThreadsOptions& options) {
  if (!options.attention.empty()) return split_names(options.attention, "--attention");
  std::vector<std::string> names;
  for (const std::string_view name : mechanism_names())
    if (!options.problem.causal || Mechanism(name).supports(Feature::causal)) names.emplace_back(name);
  return names;
}

// Times one mechanism after the other; the numbers of threads alternate within its rounds.
class ThreadsBench {
 public:
  ThreadsBench(const ThreadsOptions& options, const Console& console) : options_(options) {
    const ContextOptions context = options.machine.context(console);
    counts_ = counts_of(options, Context(context).threads());
    for (const std::int64_t count : counts_) {
      contexts_.push_back(std::make_unique<Context>(context));
      contexts_.back()->set_threads(static_cast<int>(count));
    }
  }

  const std::vector<std::int64_t>& counts() const { return counts_; }

  using Told = std::function<void(double share)>;
  void time(const std::string& name, const Told& told, ThreadsReport& report) const {
    std::vector<TimedCase> cases;
    for (const char* yardstick : {kSgemm, kCopy}) add_yardstick(yardstick, cases);
    add_passes(name, cases);
    RoundOptions rounds;
    rounds.rounds = static_cast<int>(options_.rounds);
    rounds.progress = [&](std::size_t, std::size_t done, std::size_t expected) {
      told(static_cast<double>(done) / static_cast<double>(expected));
    };
    const RoundReport timed = measure_rounds(*contexts_.back(), cases, rounds);
    const ThreadsRow sgemm = row_of(timed, 0, kSgemm, "", 1.0);
    const auto row = [&](std::size_t place, const std::string& what, const char* pass) {
      return row_of(timed, place, what, pass, sgemm.gain());
    };
    if (report.rows.empty()) report.yardsticks = {row(0, kSgemm, ""), row(1, kCopy, "")};
    report.rows.push_back(row(2, name, "forward"));
    report.rows.push_back(row(3, name, "backward"));
  }

 private:
  static constexpr const char *kSgemm = "sgemm 2048^3", *kCopy = "copy of 64 MB";
  static constexpr double kCopied = 64 << 20;  // bytes

  void add_yardstick(const char* name, std::vector<TimedCase>& cases) const {
    for (const auto& context : contexts_)
      cases.push_back({name, 0.0, [&context, product = name == kSgemm] {
                         return product ? 2.0 * 2048 * 2048 * 2048 / gemm::gemm_rate(*context)
                                        : kCopied / copy_rate(*context);
                       }});
  }

  void add_passes(const std::string& name, std::vector<TimedCase>& cases) const {
    const AttentionProblem problem = options_.problem.problem(name, options_.n);
    const AttentionData data = random_data(*contexts_.back(), problem);
    std::vector<std::shared_ptr<AttentionCase>> attention;
    for (const auto& context : contexts_) attention.push_back(std::make_shared<AttentionCase>(*context, problem, data));
    for (const auto& one : attention)
      cases.push_back({name, problem.forward_flops(), [one] { return one->forward(); }});
    for (const auto& one : attention)
      cases.push_back({name, problem.backward_flops(), [one] { return one->backward(); }});
  }

  // Cases stand in groups, one for each number of threads.
  ThreadsRow row_of(const RoundReport& timed, std::size_t group, const std::string& name, const char* pass,
                    double sgemm_gain) const {
    const auto begin = timed.cases.begin() + static_cast<std::ptrdiff_t>(group * counts_.size());
    return {name, pass, {begin, begin + std::ssize(counts_)}, sgemm_gain};
  }

  const ThreadsOptions& options_;
  std::vector<std::int64_t> counts_;
  std::vector<std::unique_ptr<Context>> contexts_;  // one for each of the counts
};

ThreadsReport measure(const ThreadsOptions& options, const Console& console) {
  const ThreadsBench bench(options, console);
  const std::vector<std::string> names = names_of(options);
  const LoadMeter load;
  ThreadsReport report{console.command,
                       fmt::format("{}, n {}", options.problem.text(), options.n),
                       this_machine().text(),
                       bench.counts(),
                       {},
                       {}};
  {
    Progress progress(progress_options(console, "threads", "mechanisms"));
    for (std::size_t i = 0; i < names.size(); ++i)
      bench.time(
          names[i],
          [&](double share) {
            progress.update({.step = static_cast<std::int64_t>(i),
                             .total = std::ssize(names),
                             .share = (static_cast<double>(i) + share) / static_cast<double>(names.size()),
                             .notice = names[i]});
          },
          report);
  }
  if (report.counts.back() > this_machine().cores)
    report.warnings.push_back(fmt::format("{} threads had {} cores", report.counts.back(), this_machine().cores));
  warn_of_load(load, console, report.warnings);
  return report;
}

void run(const ThreadsOptions& options, const Console& console) {
  const ThreadsReport report = measure(options, console);
  console.document(threads_json(report));
  console.print(threads_text(report));
  if (options.out.empty()) return;
  write_threads(report, options.out);
  console.note(fmt::format("report: {}/report.html", options.out));
}

}  // namespace

void add_bench_threads(Program& program, const Arguments& bench) {
  const auto o = std::make_shared<ThreadsOptions>();
  const Arguments verb = program.add(
      {"threads",
       "Times mechanisms with 1, 2, 4 and more threads: what those gain, beside products and copies of memory.",
       {"fovea bench threads --attention softmax,norm,diag --out threads", "fovea bench threads --n 8192 --causal"}},
      [o](const Console& console) {
        o->problem.default_heads(8);
        run(*o, console);
      },
      &bench);
  verb.add_option("--attention", o->attention, "mechanisms to time [all]").type_name("A,B");
  verb.add_option("--counts", o->counts, "numbers of threads [1,2,4,... and --threads]").type_name("N,N");
  verb.add_option("--n", o->n, "sequence length").type_name("N").check(in_range(1, 1 << 24)).show_default();
  add_problem_options(verb, o->problem);
  verb.add_option("--rounds", o->rounds, "rounds that medians are taken over")
      .type_name("N")
      .check(in_range(1, 1 << 24))
      .show_default();
  verb.add_option("--out", o->out, "folder for report.html, PNG and CSV").type_name("FOLDER");
  verb.add_option("--seed", o->machine.seed, "of the inputs").type_name("N").show_default();
  add_machine_options(verb, o->machine);
}

}  // namespace fovea::cli
