#include "cli/compare_report.h"

#include <fmt/format.h>

#include "cli/run_text.h"
#include "fovea/version.h"
#include "measure/machine.h"

namespace fovea::cli {

Json compare_json(const CompareReport& report) {
  Json results = Json::array();
  for (const RunResult& result : report.results) {
    Json row = write_fields(result);
    row["steps_per_second"] = result.steps_per_second();
    results.push_back(std::move(row));
  }
  return {{"version", FOVEA_VERSION},
          {"machine", this_machine().text()},
          {"data", report.data},
          {"majority_share", report.majority},
          {"results", results}};
}

void write_comparison(const CompareReport& report, const std::string& folder) {
  write_file(Path(folder) / "results.csv", results_table(report.results).csv());
}

}  // namespace fovea::cli
