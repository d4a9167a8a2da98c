#pragma once

#include <functional>
#include <string>

#include "cli/kit/console.h"
#include "report/progress.h"

namespace fovea::cli {

// A bar on standard error, none with --quiet. `unit` is what the rate counts.
ProgressOptions progress_options(const Console& console, std::string label, std::string unit);

// For EvalOptions::progress: a bar of the examples that are done, gone when the options are.
std::function<void(std::int64_t done, std::int64_t all)> eval_progress(const Console& console, std::string label);

}  // namespace fovea::cli
