#pragma once

#include <string>
#include <vector>

#include "experiment/run_model.h"
#include "report/table.h"

namespace fovea {

// One row: the scores of the task, speed, memory, size.
Table result_table(const RunResult& result);

// Waiting for batches is shown from this share of the training time on.
inline constexpr double kInputWaitShown = 0.02;

// "where the time went: attention 61%, gemm 20%, ..."
std::string zones_text(const RunResult& result);

// Examples, sizes, classes and the accuracy of always giving the most frequent answer.
std::string describe_data(const Dataset& data);

}  // namespace fovea
