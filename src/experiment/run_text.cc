#include "experiment/run_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace fovea {

Table result_table(const RunResult& result) {
  std::vector<TableColumn> columns;
  std::vector<TableCell> cells;
  for (const ScoreColumn& score : score_columns(result.scores)) {
    columns.push_back(score.column);
    cells.push_back(score_cell(score.value(result.scores), score.margin(result.scores)));
  }
  columns.insert(columns.end(), {{"steps/s"}, {"peak memory", Quantity::bytes}, {"parameters", Quantity::count}});
  for (const double cost :
       {result.steps_per_second(), static_cast<double>(result.peak_memory), static_cast<double>(result.parameters)})
    cells.emplace_back(cost);
  Table table(columns);
  table.add(result.name, std::move(cells));
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
    if (zone.seconds > 0.01 * all)  // one line of 80 columns
      out += fmt::format("{}{} {:.0f}%", out.empty() ? "" : ", ", zone.name, 100.0 * zone.seconds / all);
  out = "where the time went: " + (out.empty() ? "nothing was timed" : out);
  if (result.input_seconds > kInputWaitShown * result.train_seconds)
    out +=
        fmt::format("\ninput wait: {:.0f}% of the training time", 100.0 * result.input_seconds / result.train_seconds);
  if (result.skipped > 0)
    out += fmt::format("\nskipped: {} of {} steps, whose f16 gradients overflowed", result.skipped, result.steps);
  return out;
}

std::string describe_data(const Dataset& data) {
  std::string text = fmt::format("{}  {} train, {} test", data.name, data.train->size(), data.test->size());
  if (data.height > 0) text += fmt::format(", pictures of {} x {} x {}", data.height, data.width, data.channels);
  if (data.vocabulary > 0) text += fmt::format(", length up to {}", data.max_length);
  if (data.horizon > 0)
    text += fmt::format(", {} channels, {} rows from {}", data.channels, data.horizon, data.max_length);
  if (data.classes > 0)
    text += fmt::format(", {} classes (majority {:.1f}%)", data.classes, 100.0 * data.test->majority());
  else if (data.task == Task::regress)
    text += fmt::format(", numbers (mean {:.3g})", data.mean.front());
  else if (data.vocabulary > 0)
    text += fmt::format(", {} token ids", data.vocabulary);
  return text;
}

}  // namespace fovea
