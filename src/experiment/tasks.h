#pragma once

#include <cstdint>
#include <span>
#include <string>
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

// How the models of a task are made and trained. Names are in protocol_names().
struct TaskProtocol {
  std::string_view name, summary;
  Protocol settings;
};

// One task of an arena. A new one is a row in tasks.cc; what runs, compares and reports knows no task.
struct ArenaTask {
  std::string_view name;   // "listops"
  std::string_view title;  // "ListOps"
  std::string_view files;  // what --data has to be; empty: it is generated
  Metric metric;
  std::vector<TaskProtocol> protocols;  // the first where none is named
  std::span<const Published> published;
  std::string_view stand_in = {};  // a file that only sets in place of the arena's own have

  const Protocol& protocol() const { return protocols.front().settings; }
  const Protocol& protocol(std::string_view name) const;  // refuses those that the task has not
  // Another set in the shape of the arena's: published scores say nothing of it.
  bool is_stood_in_for(const std::string& data) const;
};

// Those of the Long-Range Arena.
std::span<const ArenaTask> arena_tasks();
const ArenaTask& arena_task(std::string_view name);  // refuses others

}  // namespace fovea
