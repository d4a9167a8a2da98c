#pragma once

#include <string>
#include <vector>

#include "cli/run_model.h"
#include "report/table.h"

namespace fovea::cli {

// One row per model: the scores of the task, speed, memory, size.
Table results_table(const std::vector<RunResult>& results);

// "where the time went: attention 61%, gemm 20%, ..."
std::string zones_text(const RunResult& result);

// A name as part of a path: "diag:block=32" becomes "diag-block-32".
std::string folder_name(const std::string& name);

}  // namespace fovea::cli
