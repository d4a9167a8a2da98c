#include "cli/kit/train_progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "cli/kit/progress.h"
#include "experiment/run_text.h"
#include "io/json.h"

namespace fovea::cli {
namespace {

constexpr double kMemory = 50.0;

// Of the card: "812 MB", "10.4 GB".
std::string bytes_text(std::size_t bytes) {
  const double mega = static_cast<double>(bytes) / 1e6;
  return mega < 1e3 ? fmt::format("{:.0f} MB", mega) : fmt::format("{:.1f} GB", mega / 1e3);
}

// A model of texts is timed by its tokens: how many a step has depends on their lengths.
bool counts_tokens(const Scores& scores) { return !scores.classes() && !scores.numbers(); }

ProgressOptions bar_options(const Console& console, const Scores& scores, std::string name,
                            const TrainProgress::Form& form) {
  const std::size_t width = form.name_width;
  ProgressOptions options = progress_options(console, std::move(name), counts_tokens(scores) ? "tokens" : "steps");
  options.label_width = width;
  options.quiet = options.quiet || form.json_lines;
  return options;
}

}  // namespace

double TrainProgress::Smooth::add(double value) {
  const double keep = 1.0 - 1.0 / kMemory;
  sum_ = keep * sum_ + value;
  weight_ = keep * weight_ + 1.0;
  return sum_ / weight_;
}

TrainProgress::TrainProgress(const Console& console, Task task, std::string name, Form form)
    : console_(console),
      name_(name),
      json_lines_(form.json_lines),
      scores_{.task = task},
      progress_(bar_options(console, scores_, std::move(name), form)) {}

// As often as plain lines, and at the end.
void TrainProgress::write_json(const StepReport& report) {
  constexpr double kSeconds = 5.0;
  if (told_ >= 0.0 && report.train_seconds - told_ < kSeconds && report.progress < 1.0) return;
  told_ = report.train_seconds;
  Json line{{"event", "step"},      {"name", name_},       {"step", report.step},     {"progress", report.progress},
            {"loss", state_.loss},  {"rate", report.rate}, {"tokens", report.tokens}, {"seconds", report.train_seconds},
            {"speed", state_.rate}, {"skipped", skipped_}};
  if (scores_.classes()) line["accuracy"] = state_.accuracy;
  if (!warning_.empty()) line["warning"] = warning_;
  console_.event(line);
}

void TrainProgress::on_step(const StepReport& report) {
  state_.step = report.step;
  state_.share = report.progress;
  if (report.progress > 0.0) state_.total = std::llround(static_cast<double>(report.step) / report.progress);
  state_.loss = loss_.add(report.loss);
  if (scores_.classes()) state_.accuracy = accuracy_.add(report.accuracy);
  const double done = counts_tokens(scores_) ? static_cast<double>(report.tokens) : 1.0;
  state_.rate = rate_.add(done / std::fmax(report.seconds, 1e-9));
  state_.notice = notice(report);
  progress_.update(state_);
  if (json_lines_) write_json(report);
  if (console_.verbose && !report.note.empty()) {
    progress_.hide();
    console_.detail(fmt::format("step {}: {}", report.step, report.note));
  }
}

void TrainProgress::on_eval_progress(std::int64_t done, std::int64_t all) {
  if (state_.step == 0) return;  // a resumed run ends an evaluation first: where it stands is not known yet
  ProgressState state = state_;
  state.notice = fmt::format("validating {:.0f}%", 100.0 * static_cast<double>(done) / static_cast<double>(all));
  progress_.update(state);
}

std::string TrainProgress::notice(const StepReport& report) {
  skipped_ += report.skipped ? 1 : 0;
  const double waited = waiting_.add(report.input_seconds) / std::fmax(seconds_.add(report.seconds), 1e-9);
  std::vector<std::string> parts;
  if (!warning_.empty()) parts.push_back(warning_);
  if (report.memory > 0) parts.push_back(bytes_text(report.memory));
  if (skipped_ > 0) parts.push_back(fmt::format("{} skipped", skipped_));
  if (waited > kInputWaitShown) parts.push_back(fmt::format("input wait {:.0f}%", 100.0 * waited));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void TrainProgress::finish() {
  if (state_.step > 0) progress_.update(state_);  // no longer validating
  progress_.finish();
}

void TrainProgress::on_eval(const EvalReport& report) {
  if (json_lines_) {
    Json line{{"event", "evaluation"}, {"name", name_},       {"step", report.step},
              {"split", report.split}, {"loss", report.loss}, {"best", report.best}};
    if (scores_.classes()) line["accuracy"] = report.accuracy;
    return console_.event(line);
  }
  progress_.hide();
  Scores scores = scores_;
  scores.loss = report.loss;
  scores.accuracy = report.accuracy;
  scores.deviation = report.deviation;
  scores.examples = report.examples;
  console_.note(fmt::format("{}  step {}: {} {}{}", name_, report.step, report.split, scores_text(scores),
                            report.best ? ", best so far" : ""));
}

}  // namespace fovea::cli
