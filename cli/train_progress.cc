#include "cli/train_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

namespace fovea::cli {
namespace {

constexpr double kMemory = 50.0;

ProgressOptions progress_options(const Console& console, std::string name, std::size_t width) {
  ProgressOptions options;
  options.label = std::move(name);
  options.label_width = width;
  options.terminal = Terminal::of(STDERR_FILENO);
  options.quiet = console.quiet;
  return options;
}

}  // namespace

double TrainProgress::Smooth::add(double value) {
  const double keep = 1.0 - 1.0 / kMemory;
  sum_ = keep * sum_ + value;
  weight_ = keep * weight_ + 1.0;
  return sum_ / weight_;
}

TrainProgress::TrainProgress(const Console& console, Task task, std::string name, std::size_t name_width)
    : console_(console), progress_(progress_options(console, std::move(name), name_width)), scores_{.task = task} {}

void TrainProgress::on_step(const StepReport& report) {
  ProgressState state;
  state.step = report.step;
  state.share = report.progress;
  if (report.progress > 0.0) state.total = std::llround(static_cast<double>(report.step) / report.progress);
  state.loss = loss_.add(report.loss);
  tokens_ += report.tokens;
  const double rate = rate_.add(static_cast<double>(report.tokens) / std::fmax(report.seconds, 1e-9));
  if (scores_.classes()) state.accuracy = accuracy_.add(report.accuracy);
  if (!scores_.classes() && scores_.task != Task::forecast) state.tokens_per_second = rate;
  state.notice = notice(report);
  progress_.update(state);
}

std::string TrainProgress::notice(const StepReport& report) {
  skipped_ += report.skipped ? 1 : 0;
  const double waited = waiting_.add(report.input_seconds) / std::fmax(seconds_.add(report.seconds), 1e-9);
  std::string out = skipped_ > 0 ? fmt::format("{} skipped", skipped_) : "";
  if (waited > kInputWaitShown) out += fmt::format("{}input wait {:.0f}%", out.empty() ? "" : ", ", 100.0 * waited);
  return out;
}

void TrainProgress::on_eval(const EvalReport& report) {
  if (!console_.verbose) return;
  progress_.hide();
  Scores scores = scores_;
  scores.loss = report.loss;
  scores.accuracy = report.accuracy;
  scores.deviation = report.deviation;
  console_.detail(fmt::format("step {}: {} {}{}", report.step, report.split, scores_text(scores),
                              report.best ? ", the best so far" : ""));
}

}  // namespace fovea::cli
