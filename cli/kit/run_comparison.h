#pragma once

#include <string>

#include "cli/kit/rank_options.h"
#include "cli/kit/run_options.h"
#include "experiment/comparison.h"

namespace fovea::cli {

// The options of verbs that compare models, each with the same budget.
struct ComparisonOptions {
  RunOptions run;
  RankOptions ranks;
  std::string model, attention;  // rivals, separated by commas
  std::string seeds;
  std::string resume;

  // What is to be compared on a task of the arena, or on any data (no task). The attention of `run` is not looked at.
  ComparisonChoices choices(const std::string& task) const;
};
void add_comparison_options(const Arguments& verb, ComparisonOptions& options);

// A new comparison, in a folder that the first rank names and looks at.
ComparisonPlan new_comparison(const Protocol& protocol, const ComparisonChoices& choices,
                              const ComparisonOptions& options, const Console& console);
// The comparison that --resume names; what else was typed would change it, and is refused.
ComparisonPlan resumed_comparison(const ComparisonOptions& options);

// Trains what is not finished, prints the tables, writes the page; gives the document. Stopped, it does so with what is
// finished, and fails.
Json run_comparison(const ComparisonPlan& plan, const ComparisonOptions& options, const Console& console);

}  // namespace fovea::cli
