#include "train/metrics.h"

namespace fovea {
namespace {

const std::vector<std::string> kColumns = {"step",
                                           "split",
                                           "epoch",
                                           "loss",
                                           "accuracy",
                                           "lr",
                                           "gradient_norm",
                                           "steps_per_second",
                                           "tokens_per_second",
                                           "train_seconds"};

}  // namespace

MetricsWriter::MetricsWriter(const Path& folder, std::int64_t log_every, std::int64_t step)
    : log_every_(log_every),
      csv_(CsvLog::resume(folder / "metrics.csv", kColumns, static_cast<double>(step))),
      events_(folder) {}

void MetricsWriter::on_step(const StepReport& report) {
  ++steps_;
  tokens_ += report.tokens;
  loss_ += report.loss;
  accuracy_ += report.accuracy;
  step_seconds_ += report.seconds;
  if (report.step % log_every_ != 0) return;
  const auto count = static_cast<double>(steps_);
  const double steps_rate = count / step_seconds_, tokens_rate = static_cast<double>(tokens_) / step_seconds_;
  csv_.row({report.step, "train", report.epoch, loss_ / count, accuracy_ / count, report.rate, report.gradient_norm,
            steps_rate, tokens_rate, report.train_seconds});
  events_.scalar("train/loss", report.step, loss_ / count);
  events_.scalar("train/accuracy", report.step, accuracy_ / count);
  events_.scalar("train/lr", report.step, report.rate);
  events_.scalar("train/gradient_norm", report.step, report.gradient_norm);
  events_.scalar("train/steps_per_second", report.step, steps_rate);
  steps_ = tokens_ = 0;
  loss_ = accuracy_ = step_seconds_ = 0.0;
}

void MetricsWriter::on_eval(const EvalReport& report) {
  constexpr std::monostate kEmpty;
  csv_.row({report.step, report.split, kEmpty, report.loss, report.accuracy, kEmpty, kEmpty, kEmpty, kEmpty,
            report.train_seconds});
  events_.scalar(report.split + "/loss", report.step, report.loss);
  events_.scalar(report.split + "/accuracy", report.step, report.accuracy);
}

}  // namespace fovea
