#pragma once

#include <cstdint>
#include <vector>

namespace fovea::divided {

// One piece of a step: a chunk of the layers on one part of the batch, forward or backward.
struct ScheduledPass {
  std::int64_t part = 0, chunk = 0;
  bool backward = false;

  bool operator==(const ScheduledPass&) const = default;
};

struct PipelineSizes {
  std::int64_t ranks = 1, chunks = 1;  // chunks of all ranks; chunk c is that of rank c % ranks
  std::int64_t parts = 1;
};

// What a rank does in a step, in order: one forward, one backward, after as many forwards as keep the ranks behind it
// busy, so that few parts wait for their gradients at once. Ranks with several chunks take them in turns, about `ranks`
// parts each. One rank with one chunk: each part forward and backward.
std::vector<ScheduledPass> pipeline_schedule(const PipelineSizes& sizes, std::int64_t rank);

}  // namespace fovea::divided
