#pragma once

#include <optional>
#include <vector>

#include "experiment/compare_report.h"
#include "report/table.h"

// What a comparison says in numbers. Over several seeds a score is their mean; what stands behind ± is half of its 95%
// interval, by the examples that were tested and by how far the seeds of all models differ.
namespace fovea {

// Scores and costs, a row for each model and one for what is reached without any: by always giving the most frequent
// answer, or by knowing how often each token comes.
Table comparison_table(const CompareReport& report);

// A score that it takes some effort to reach, and what is called so: nine tenths of the way from where nothing is
// learned to the best model.
struct Target {
  double level = 0.0;  // accuracy in percent, or loss
  bool accuracy = false;
  std::string text() const;  // "35%", "loss 1.62"
};
std::optional<Target> target_of(const CompareReport& report);  // none: nothing was learned

double seconds_to(const RivalReport& rival, const Target& target);  // mean over its seeds; NaN unless all reach it

// Steps, tokens, time, and the time to the target.
Table course_table(const CompareReport& report);

// Each run by itself; the numbers of results.csv.
Table runs_table(const CompareReport& report);

std::optional<Table> published_table(const CompareReport& report);  // none: nothing is published of these models
std::optional<Table> length_table(const CompareReport& report);     // none: all inputs are about as long
std::optional<Table> settings_table(const CompareReport& report);   // none: all have the same

// Mean over the seeds, and half of its 95% interval.
struct Estimate {
  double value = 0.0, margin = 0.0;
};
Estimate estimate_of(const CompareReport& report, const RivalReport& rival, const ScoreColumn& score);

}  // namespace fovea
