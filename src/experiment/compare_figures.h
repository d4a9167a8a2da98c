#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiment/compare_report.h"
#include "report/html.h"

namespace fovea {

// Milliseconds of a step by kind of work, a bar for each model.
Figure time_figure(const CompareReport& report);

// The pictures of a comparison, with the names of their files.
std::vector<std::pair<std::string, Figure>> compare_figures(const CompareReport& report);

}  // namespace fovea
