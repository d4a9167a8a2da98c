#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "experiment/scores.h"
#include "experiment/settings.h"

namespace fovea {

// What a task is judged by.
struct Metric {
  std::string_view name;
  double Scores::*value;
};

struct PublishedScore {
  std::string_view model;  // preset or mechanism
  double value;            // in the metric of the task, as Scores has it
};

// What others report, and the work it took them: scores of different budgets are not to be compared.
struct Published {
  std::string_view source;
  std::int64_t steps, batch;
  std::span<const PublishedScore> scores;
};

// One task of an arena. A new one is a row in tasks.cc; what runs, compares and reports knows no task.
struct ArenaTask {
  std::string_view name;   // "listops"
  std::string_view title;  // "ListOps"
  Metric metric;
  Protocol protocol;  // data, budget and training settings, where nothing else is chosen
  std::span<const Published> published;
};

// Those of the Long-Range Arena.
std::span<const ArenaTask> arena_tasks();
const ArenaTask& arena_task(std::string_view name);  // refuses others

}  // namespace fovea
