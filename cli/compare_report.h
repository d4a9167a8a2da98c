#pragma once

#include <string>
#include <vector>

#include "cli/run_model.h"

namespace fovea::cli {

// Several finished runs on one data set.
struct CompareReport {
  std::string command;
  std::string name;       // of the data set
  std::string data;       // the data set in a line
  double majority = 0.0;  // accuracy of always giving the most frequent answer
  std::vector<RunResult> results;
  std::vector<RunSettings> settings;  // of each result; metrics.csv lies in its train.out
};

Json compare_json(const CompareReport& report);
// report.html, PNGs of its plots, and results.csv. Curves come from the metrics.csv of each run.
void write_comparison(const CompareReport& report, const std::string& folder);

}  // namespace fovea::cli
