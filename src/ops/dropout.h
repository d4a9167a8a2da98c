#pragma once

#include <cstdint>

#include "core/rng.h"
#include "fovea/autograd.h"

namespace fovea {

// Which elements a dropout keeps: element i survives when word i % 4 of philox(seed, i / 4, stream) is at least the
// threshold. Nothing is stored; backward asks again.
struct Keep {
  std::uint64_t seed = 0, stream = 0;
  std::uint32_t threshold = 0;
  double scale = 1.0;  // 1 / (1 - p), for the survivors

  bool active() const { return threshold != 0; }
};

// The next dropout of a tape; inactive unless it trains and p > 0.
inline Keep next_dropout(Tape& tape, double p) {
  if (!(p >= 0.0 && p < 1.0))
    fail(ErrorCode::usage, "dropout probability " + std::to_string(p) + " is outside [0, 1)", "dropout_p");
  if (!tape.training() || p == 0.0) return {};
  return {tape.context().seed(), tape.next_stream(), drop_threshold(static_cast<float>(p)), 1.0 / (1.0 - p)};
}

}  // namespace fovea
