#pragma once

#include <memory>

#include "fovea/train.h"
#include "io/file.h"

namespace fovea {

// Writes metrics.csv and a TensorBoard event file into the folder of a run.
std::unique_ptr<TrainObserver> make_metrics_writer(const Path& folder, std::int64_t log_every, std::int64_t first_step);

}  // namespace fovea
