#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "measure/rounds.h"

namespace fovea::cli {

// One work with several numbers of threads; `timings` go with ThreadsReport::counts, fewest first.
struct ThreadsRow {
  std::string name;
  std::string pass;  // "forward", "backward"; empty: a yardstick
  std::vector<Timing> timings;
  double sgemm_gain = 0.0;  // that of sgemm in the same rounds

  double gain() const { return timings.front().seconds / timings.back().seconds; }
  double of_sgemm() const { return gain() / sgemm_gain; }
  bool slower(std::size_t i) const;  // than with fewer threads, and not by noise
};

struct ThreadsReport {
  std::string command, setting, machine;
  std::vector<std::int64_t> counts;
  std::vector<ThreadsRow> yardsticks;  // what the machine itself gains: products and copies
  std::vector<ThreadsRow> rows;
  std::vector<std::string> warnings = {};
};

std::string threads_text(const ThreadsReport& report);
Json threads_json(const ThreadsReport& report);
// report.html, PNGs of its plots, and threads.csv.
void write_threads(const ThreadsReport& report, const std::string& folder);

}  // namespace fovea::cli
