#pragma once

#include <string>
#include <vector>

#include "experiment/run_model.h"
#include "report/html.h"

namespace fovea {

// A model, with each seed that is finished. The curves of a run lie in its train.out.
struct RivalReport {
  std::string name;
  std::vector<RunSettings> settings;
  std::vector<RunResult> results;  // one for each of them
};

// Several models on one data set.
struct CompareReport {
  std::string command = {};
  std::string task = {};        // of the arena; empty: none
  bool stand_in = false;        // the data is another set in the shape of the arena's
  std::string name = {};        // of the data set
  std::string data = {};        // the data set in a line
  double majority = 0.0;        // accuracy of always giving the most frequent answer; 0: there are no classes
  double frequency_loss = 0.0;  // of who knows how often each token comes (token_frequencies.h); 0: no tokens are told
  std::int64_t planned = 0;     // runs, finished or not
  std::vector<RivalReport> rivals = {};
  std::vector<PageLink> links = {};  // pages beside the report

  const Scores& scores() const { return rivals.front().results.front().scores; }  // of the same task as all
  std::int64_t finished() const;
};

// What makes the numbers less than they seem: other programs that ran meanwhile.
std::vector<std::string> comparison_warnings(const CompareReport& report);

Json compare_json(const CompareReport& report);
// report.html, PNGs of its plots, and results.csv. Something must be finished.
void write_comparison(const CompareReport& report, const std::string& folder);

}  // namespace fovea
