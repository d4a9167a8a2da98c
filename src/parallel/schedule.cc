#include "parallel/schedule.h"

#include <algorithm>

#include "dist/group.h"

namespace fovea::divided {
namespace {

// Parts that a rank takes through one chunk before it goes on to its next: as many as there are ranks, or some more, so
// that no turn is shorter, which could leave ranks waiting for each other.
std::int64_t turns_of(const PipelineSizes& sizes) { return std::max<std::int64_t>(1, sizes.parts / sizes.ranks); }

// All passes of a rank in one direction.
std::vector<ScheduledPass> in_turns(const PipelineSizes& sizes, std::int64_t rank, bool backward) {
  const std::int64_t own = sizes.chunks / sizes.ranks, turns = turns_of(sizes);
  std::vector<ScheduledPass> passes;
  for (std::int64_t turn = 0; turn < turns; ++turn)
    for (std::int64_t i = 0; i < own; ++i)
      for (std::int64_t part = dist::part_begin(sizes.parts, turns, turn);
           part < dist::part_begin(sizes.parts, turns, turn + 1); ++part)
        passes.push_back({part, rank + sizes.ranks * (backward ? own - 1 - i : i), backward});
  return passes;
}

}  // namespace

std::vector<ScheduledPass> pipeline_schedule(const PipelineSizes& sizes, std::int64_t rank) {
  const std::vector<ScheduledPass> forward = in_turns(sizes, rank, false), backward = in_turns(sizes, rank, true);
  const std::int64_t behind = sizes.ranks - 1 - rank, own = sizes.chunks / sizes.ranks;
  const std::int64_t longest = dist::part_begin(sizes.parts, turns_of(sizes), 1);
  const std::int64_t ahead = own == 1 ? behind : 2 * behind + (own - 1) * longest;
  std::vector<ScheduledPass> all;
  std::size_t done = 0;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    all.push_back(forward[i]);
    if (static_cast<std::int64_t>(i) >= ahead) all.push_back(backward[done++]);
  }
  all.insert(all.end(), backward.begin() + static_cast<std::ptrdiff_t>(done), backward.end());
  return all;
}

}  // namespace fovea::divided
