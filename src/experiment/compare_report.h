#pragma once

#include <string>
#include <vector>

#include "experiment/run_model.h"

namespace fovea {

// Several finished runs on one data set.
struct CompareReport {
  std::string command;
  std::string name;       // of the data set
  std::string data;       // the data set in a line
  double majority = 0.0;  // accuracy of always giving the most frequent answer
  std::vector<RunResult> results;
  std::vector<RunSettings> settings;  // of each result; metrics.csv lies in its train.out
};

// A row for each result and, where there are classes, for always giving the most frequent one.
Table comparison_table(const CompareReport& report);

Json compare_json(const CompareReport& report);
// report.html, PNGs of its plots, and results.csv. Curves come from the metrics.csv of each run.
void write_comparison(const CompareReport& report, const std::string& folder);

}  // namespace fovea
