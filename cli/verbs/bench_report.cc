#include "cli/verbs/bench_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "fovea/version.h"
#include "io/file.h"
#include "report/html.h"

namespace fovea::cli {
namespace {

Table bench_table(const BenchReport& report) {
  Table table({{"n", Quantity::text},
               {"pass", Quantity::text},
               {"time", Quantity::seconds},
               {"GFLOP/s", Quantity::number},
               {"of sgemm", Quantity::percent},
               {"peak memory", Quantity::bytes}});
  for (const BenchRow& row : report.rows)
    table.add(row.mechanism, {std::to_string(row.n), row.pass, TableCell(row.timing.seconds, row.timing.spread),
                              row.timing.rate / 1e9, row.timing.share, static_cast<double>(row.peak_memory)});
  return table;
}

// What is drawn over the length.
struct Measure {
  const char *file, *title, *caption;
  Axis axis;
  double (*value)(const BenchRow& row);
};

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all{
      {"time",
       "Time",
       "The lower the better; a mechanism of linear cost runs along the thin line.",
       {"time", "ms", Scale::log},
       [](const BenchRow& row) { return 1e3 * row.timing.seconds; }},
      {"rate",
       "Share of the sgemm rate",
       "How much of what the machine can do is used, counting only needed work.",
       {"share of sgemm", "%"},
       [](const BenchRow& row) { return 100.0 * row.timing.share; }},
      {"memory",
       "Peak memory",
       "Outputs, gradients and scratch beyond the inputs.",
       {"memory", "MB", Scale::log},
       [](const BenchRow& row) { return static_cast<double>(row.peak_memory) / 1e6; }},
  };
  return all;
}

Plot measure_plot(const BenchReport& report, const Measure& measure, const std::string& pass) {
  Plot plot;
  plot.title = fmt::format("{}, {}", measure.title, pass);
  plot.x = {"length n", "", Scale::log2};
  plot.y = measure.axis;
  if (measure.axis.scale == Scale::log) plot.guide = Guide{1.0, "linear"};
  for (const BenchRow& row : report.rows) {
    if (row.pass != pass) continue;
    auto series =
        std::find_if(plot.series.begin(), plot.series.end(), [&](const Series& s) { return s.name == row.mechanism; });
    if (series == plot.series.end()) series = plot.series.insert(series, Series{row.mechanism, {}, {}});
    series->x.push_back(static_cast<double>(row.n));
    series->y.push_back(measure.value(row));
  }
  return plot;
}

std::set<std::string> passes_of(const BenchReport& report) {
  std::set<std::string> passes;
  for (const BenchRow& row : report.rows) passes.insert(row.pass);
  return passes;
}

double anchor_of(const BenchReport& report) {
  std::vector<double> anchors;
  for (const BenchRow& row : report.rows) anchors.push_back(row.anchor);
  return median(std::move(anchors));
}

}  // namespace

std::string bench_text(const BenchReport& report) {
  return fmt::format("{}\n{}sgemm 2048^3: {:.0f} GFLOP/s\n", report.setting,
                     bench_table(report).text(Terminal::of(STDOUT_FILENO)), anchor_of(report) / 1e9);
}

Json bench_json(const BenchReport& report) {
  Json rows = Json::array();
  for (const BenchRow& row : report.rows)
    rows.push_back({{"attention", row.mechanism},
                    {"n", row.n},
                    {"pass", row.pass},
                    {"seconds", row.timing.seconds},
                    {"spread", row.timing.spread},
                    {"gflops", row.timing.rate / 1e9},
                    {"sgemm_share", row.timing.share},
                    {"peak_bytes", row.peak_memory}});
  return {{"version", FOVEA_VERSION},
          {"setting", report.setting},
          {"machine", report.machine},
          {"warnings", report.warnings},
          {"sgemm_gflops", anchor_of(report) / 1e9},
          {"rows", rows}};
}

void write_bench(const BenchReport& report, const std::string& folder) {
  const Path path = folder;
  make_folder(path);
  const std::string csv = bench_table(report).csv();
  Page page{
      .title = "Attention on this machine",
      .sentence = fmt::format("{} on {}.", report.setting, report.machine),
      .command = report.command,
      .table = bench_table(report),
      .table_note = fmt::format("Medians; percentages refer to oneDNN's sgemm of 2048^3 in the same round, {:.0f} "
                                "GFLOP/s in the median.",
                                anchor_of(report) / 1e9),
      .warnings = report.warnings,
      .details = {{"Rows as JSON", json_text(bench_json(report))}},
      .downloads = {{"bench.csv", csv}}};
  for (const Measure& measure : measures())
    for (const std::string& pass : passes_of(report)) {
      page.figures.push_back({measure_plot(report, measure, pass), measure.caption});
      write_png(page.figures.back().plot, path / fmt::format("{}-{}.png", measure.file, pass));
    }
  write_file(path / "bench.csv", csv);
  write_file(path / "report.html", page_html(page));
}

}  // namespace fovea::cli
