#include "cli/bench_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include "fovea/version.h"
#include "io/file.h"
#include "report/table.h"

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
          {"sgemm_gflops", anchor_of(report) / 1e9},
          {"rows", rows}};
}

void write_bench(const BenchReport& report, const std::string& folder) {
  make_folder(folder);
  write_file(Path(folder) / "bench.csv", bench_table(report).csv());
}

}  // namespace fovea::cli
