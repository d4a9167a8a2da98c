#include "cli/verbs/threads_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "fovea/version.h"
#include "io/file.h"
#include "report/html.h"

namespace fovea::cli {
namespace {

constexpr double kBar = 0.9;       // of what sgemm gains
constexpr double kNoise = 1.05;    // a time so much above another is longer
constexpr std::size_t kDrawn = 6;  // mechanisms in a plot: those that gain least

TableCell time_cell(const ThreadsRow& row, std::size_t i) {
  TableCell cell(row.timings[i].seconds, row.timings[i].spread);
  cell.missed = row.slower(i);
  return cell;
}

void add_row(const ThreadsRow& row, Table& table) {
  std::vector<TableCell> cells{row.pass};
  for (std::size_t i = 0; i < row.timings.size(); ++i) cells.push_back(time_cell(row, i));
  TableCell share(row.of_sgemm());
  share.missed = !row.pass.empty() && row.of_sgemm() < kBar;
  cells.insert(cells.end(), {row.gain(), share});
  table.add(row.name, cells);
}

Table threads_table(const ThreadsReport& report) {
  std::vector<TableColumn> columns{{"pass", Quantity::text}};
  for (const std::int64_t count : report.counts)
    columns.push_back({fmt::format("{} thread{}", count, count == 1 ? "" : "s"), Quantity::seconds});
  columns.insert(columns.end(), {{"gain", Quantity::ratio}, {"of sgemm's", Quantity::percent}});
  Table table(columns);
  for (const ThreadsRow& row : report.yardsticks) add_row(row, table);
  for (const ThreadsRow& row : report.rows) add_row(row, table);
  return table;
}

Series series_of(const ThreadsReport& report, const ThreadsRow& row) {
  Series series{row.name};
  for (std::size_t i = 0; i < report.counts.size(); ++i) {
    series.x.push_back(static_cast<double>(report.counts[i]));
    series.y.push_back(row.timings.front().seconds / row.timings[i].seconds);
  }
  return series;
}

Plot gain_plot(const ThreadsReport& report, const std::string& pass) {
  std::vector<const ThreadsRow*> rows;
  for (const ThreadsRow& row : report.rows)
    if (row.pass == pass) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->gain() < b->gain(); });
  rows.resize(std::min(rows.size(), kDrawn));
  Plot plot;
  plot.title = fmt::format("Gain of threads, {}", pass);
  plot.x = {"threads", "", Scale::log2};
  plot.y = {"times as fast as with the fewest", "", Scale::log2};
  plot.guide = Guide{1.0, "ideal"};
  for (const ThreadsRow& row : report.yardsticks) plot.series.push_back(series_of(report, row));
  for (const ThreadsRow* row : rows) plot.series.push_back(series_of(report, *row));
  return plot;
}

Json row_json(const ThreadsRow& row) {
  Json seconds = Json::array(), spread = Json::array();
  for (const Timing& timing : row.timings) {
    seconds.push_back(timing.seconds);
    spread.push_back(timing.spread);
  }
  return {{"name", row.name}, {"pass", row.pass},   {"seconds", seconds},
          {"spread", spread}, {"gain", row.gain()}, {"of_sgemm", row.of_sgemm()}};
}

std::string table_note(const ThreadsReport& report) {
  return fmt::format(
      "Medians of rounds that alternate between the numbers of threads. Gain: {} threads over {}; beside "
      "it, as a share of what a product of 2048 x 2048 gained in the same rounds. Marked: gains below "
      "{:.0f}% of that, and times longer than with fewer threads.",
      report.counts.back(), report.counts.front(), 100.0 * kBar);
}

}  // namespace

bool ThreadsRow::slower(std::size_t i) const {
  const auto at = timings.begin() + static_cast<std::ptrdiff_t>(i);
  return std::any_of(timings.begin(), at, [&](const Timing& t) { return at->seconds > kNoise * t.seconds; });
}

std::string threads_text(const ThreadsReport& report) {
  return fmt::format("{}\n{}", report.setting, threads_table(report).text(Terminal::of(STDOUT_FILENO)));
}

Json threads_json(const ThreadsReport& report) {
  Json rows = Json::array(), yardsticks = Json::array();
  for (const ThreadsRow& row : report.rows) rows.push_back(row_json(row));
  for (const ThreadsRow& row : report.yardsticks) yardsticks.push_back(row_json(row));
  return {{"version", FOVEA_VERSION},
          {"setting", report.setting},
          {"machine", report.machine},
          {"threads", report.counts},
          {"warnings", report.warnings},
          {"yardsticks", yardsticks},
          {"rows", rows}};
}

void write_threads(const ThreadsReport& report, const std::string& folder) {
  const Path path = folder;
  make_folder(path);
  const std::string csv = threads_table(report).csv();
  Page page{.title = "What more threads gain",
            .sentence = fmt::format("{} on {}.", report.setting, report.machine),
            .command = report.command,
            .table = threads_table(report),
            .table_note = table_note(report),
            .warnings = report.warnings,
            .details = {{"Rows as JSON", json_text(threads_json(report))}},
            .downloads = {{"threads.csv", csv}}};
  for (const char* pass : {"forward", "backward"}) {
    page.figures.push_back({gain_plot(report, pass),
                            "The mechanisms that gain least, beside what products and copies of memory gain here."});
    write_png(page.figures.back().plot, path / fmt::format("gain-{}.png", pass));
  }
  write_file(path / "threads.csv", csv);
  write_file(path / "report.html", page_html(page));
}

}  // namespace fovea::cli
