#include "cli/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/train_progress.h"

namespace fovea::cli {

Table results_table(const std::vector<RunResult>& results) {
  std::vector<TableColumn> columns = score_columns(results.empty() ? Scores{} : results.front().scores);
  const std::vector<TableColumn> costs{{"steps/s", Quantity::number, Best::highest},
                                       {"peak memory", Quantity::bytes, Best::lowest},
                                       {"parameters", Quantity::count, Best::none}};
  columns.insert(columns.end(), costs.begin(), costs.end());
  Table table(columns);
  for (const RunResult& r : results) {
    std::vector<TableCell> cells = score_cells(r.scores);
    for (const double cost :
         {r.steps_per_second(), static_cast<double>(r.peak_memory), static_cast<double>(r.parameters)})
      cells.emplace_back(cost);
    table.add(r.name, std::move(cells));
  }
  return table;
}

std::string zones_text(const RunResult& result) {
  double all = 0.0;
  for (const ZoneTime& zone : result.zones) all += zone.seconds;
  std::vector<ZoneTime> zones = result.zones;
  std::stable_sort(zones.begin(), zones.end(),
                   [](const ZoneTime& a, const ZoneTime& b) { return a.seconds > b.seconds; });
  std::string out;
  for (const ZoneTime& zone : zones)
    if (zone.seconds > 0.005 * all)
      out += fmt::format("{}{} {:.0f}%", out.empty() ? "" : ", ", zone.name, 100.0 * zone.seconds / all);
  out = "where the time went: " + (out.empty() ? "nothing was timed" : out);
  if (result.input_seconds > kInputWaitShown * result.train_seconds)
    out +=
        fmt::format("\ninput wait: {:.0f}% of the training time", 100.0 * result.input_seconds / result.train_seconds);
  if (result.skipped > 0)
    out += fmt::format("\nskipped: {} of {} steps, whose f16 gradients overflowed", result.skipped, result.steps);
  return out;
}

std::string folder_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    if (plain)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  return out;
}

}  // namespace fovea::cli
