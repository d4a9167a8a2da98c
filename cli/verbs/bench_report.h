#pragma once

#include <string>
#include <vector>

#include "io/json.h"
#include "measure/rounds.h"

namespace fovea::cli {

// One timed pass of one mechanism at one length.
struct BenchRow {
  std::string mechanism;
  std::int64_t n = 0;
  std::string pass;  // "forward", "backward"
  Timing timing;
  std::size_t peak_memory = 0;  // bytes beyond the inputs; of a backward row: forward and backward together
  double anchor = 0.0;          // sgemm rate of these rounds
};

struct BenchReport {
  std::string command, setting, machine;
  std::vector<BenchRow> rows;
  std::vector<std::string> warnings = {};  // what makes the numbers less than they seem
};

std::string bench_text(const BenchReport& report);
Json bench_json(const BenchReport& report);
// report.html, PNGs of its plots, and bench.csv.
void write_bench(const BenchReport& report, const std::string& folder);

}  // namespace fovea::cli
