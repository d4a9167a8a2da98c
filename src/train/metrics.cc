#include "train/metrics.h"

#include "io/field_visitor.h"

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
                                           "train_seconds",
                                           "tokens"};

}  // namespace

void MetricSums::add(const StepReport& report) {
  ++steps;
  tokens += report.tokens;
  loss += report.loss;
  accuracy += report.accuracy;
  seconds += report.seconds;
}

void MetricSums::fields(FieldVisitor& v) {
  v("steps", steps, "since the last row", at_least(0));
  v("tokens", tokens, "in these", at_least(0));
  v("loss", loss, "sum over these");
  v("accuracy", accuracy, "sum over these");
  v("seconds", seconds, "these took", at_least(0));
}

MetricsWriter::MetricsWriter(const Path& folder, std::int64_t log_every, std::int64_t step, MetricSums& sums)
    : log_every_(log_every),
      sums_(sums),
      csv_(CsvLog::resume(folder / "metrics.csv", kColumns, static_cast<double>(step))),
      events_(folder) {}

void MetricsWriter::on_step(const StepReport& report) {
  sums_.add(report);
  if (report.step % log_every_ != 0) return;
  const auto count = static_cast<double>(sums_.steps);
  const double loss = sums_.loss / count, accuracy = sums_.accuracy / count;
  const double steps_rate = count / sums_.seconds, tokens_rate = static_cast<double>(sums_.tokens) / sums_.seconds;
  csv_.row({report.step, "train", report.epoch, loss, accuracy, report.rate, report.gradient_norm, steps_rate,
            tokens_rate, report.train_seconds, report.all_tokens});
  events_.scalar("train/loss", report.step, loss);
  events_.scalar("train/accuracy", report.step, accuracy);
  events_.scalar("train/lr", report.step, report.rate);
  events_.scalar("train/gradient_norm", report.step, report.gradient_norm);
  events_.scalar("train/steps_per_second", report.step, steps_rate);
  sums_ = {};
}

void MetricsWriter::on_eval(const EvalReport& report) {
  constexpr std::monostate kEmpty;
  csv_.row({report.step, report.split, kEmpty, report.loss, report.accuracy, kEmpty, kEmpty, kEmpty, kEmpty,
            report.train_seconds, report.tokens});
  events_.scalar(report.split + "/loss", report.step, report.loss);
  events_.scalar(report.split + "/accuracy", report.step, report.accuracy);
}

}  // namespace fovea
