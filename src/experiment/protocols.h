#pragma once

#include "experiment/tasks.h"

// How the Long-Range Arena is run: in minutes, as published, or with what was learned since.
namespace fovea {

// What the published protocols have for one task.
struct ArenaNumbers {
  // Skyformer's, which the TransNormer paper follows: 2 layers of width 64, 50000 steps.
  std::int64_t batch, warmup;
  double rate;
  // The arena's own code.
  std::int64_t official_layers, official_width, official_batch, official_steps;
};

// `data`: of the task. `minutes_batch`: of runs that take minutes.
std::vector<TaskProtocol> arena_protocols(const Protocol& data, std::int64_t minutes_batch,
                                          const ArenaNumbers& numbers);

}  // namespace fovea
