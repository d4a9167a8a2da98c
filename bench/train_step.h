#pragma once

#include <string>
#include <vector>

#include "fovea/train.h"

namespace fovea::bench {

// A training step of the Long-Range Arena size: 2 layers, width 64, 8 sequences of 2048 tokens, f32, dropout on.
struct StepTiming {
  std::string model;
  double seconds = 0.0;  // median
  std::vector<ZoneTime> zones;
  std::size_t peak_memory = 0;

  double steps_per_second() const { return 1.0 / seconds; }
  double share(std::string_view zone) const;  // of the time of all zones
};

StepTiming time_train_step(const std::string& preset, int threads);

}  // namespace fovea::bench
