#pragma once

#include "experiment/reproduce/results.h"

namespace fovea {

inline constexpr const char* kResultsFile = "results.json";

// What the budgets of a study are, and what is not run of it: lines for people.
std::vector<std::string> study_notes(const StudyResults& results);

// report.html with curves, results.csv and results.json, in the folder of the study.
void write_study(const StudyResults& results, const std::string& command);

// index.html in the folder above: all studies that ran below it, and score against speed against memory.
void write_front_page(const Path& folder);

}  // namespace fovea
