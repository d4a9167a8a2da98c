#include "experiment/health_log.h"

namespace fovea {
namespace {

const std::vector<std::string> kHealthColumns = {"step",
                                                 "place",
                                                 "gradient_norm",
                                                 "largest_logit",
                                                 "saturated",
                                                 "derivative",
                                                 "derivative_bound",
                                                 "score_gradient",
                                                 "score_gradient_bound",
                                                 "paper_bound"};

CsvCell cell(const std::optional<double>& value) { return value ? CsvCell(*value) : CsvCell(); }

}  // namespace

// The file goes on where a resumed run does.
void HealthLog::on_step(const StepReport& report) {
  if (health_.looked_at().empty()) return;
  if (!csv_) csv_ = CsvLog::resume(folder_ / kHealthFile, kHealthColumns, static_cast<double>(report.step - 1));
  const std::vector<std::string> parts = health_.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<CsvCell> row(kHealthColumns.size());
    row[0] = report.step;
    row[1] = parts[i];
    row[2] = health_.norms()[i];
    csv_->row(row);
  }
  for (const AttentionHealth& layer : health_.looked_at()) {
    const ScoreHealth& found = layer.worst;
    csv_->row({report.step, layer.place, std::monostate(), cell(found.max_logit), cell(found.saturated),
               cell(found.derivative), cell(found.derivative_bound), cell(found.gradient), cell(found.gradient_bound),
               cell(found.paper_bound)});
  }
}

}  // namespace fovea
