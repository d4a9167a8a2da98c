#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/rng.h"
#include "core/stream_shift.h"
#include "fovea/autograd.h"

namespace fovea {

// Which elements a dropout keeps: element i survives when half word i % 8 (the lower half first) of philox(seed, i / 8,
// stream) is at least the threshold. Nothing is stored; backward asks again. Half words halve the time of a dropout;
// p becomes the next of 65536 steps.
struct Keep {
  std::uint64_t seed = 0, stream = 0;
  std::uint16_t threshold = 0;
  const std::uint64_t* shift = nullptr;  // on the device: what a recorded step adds to the stream

  bool active() const { return threshold != 0; }
  double scale() const { return 65536.0 / (65536.0 - threshold); }  // 1 / (1 - p), for the survivors
};

inline Keep keep_with(double p, std::uint64_t seed, std::uint64_t stream) {
  const double steps = std::clamp(std::round(65536.0 * p), p > 0.0 ? 1.0 : 0.0, 65535.0);
  return {seed, stream, static_cast<std::uint16_t>(steps)};
}

// The next dropout of a tape; inactive unless it trains and p > 0.
inline Keep next_dropout(Tape& tape, double p) {
  if (!(p >= 0.0 && p < 1.0))
    fail(ErrorCode::usage, "dropout probability " + std::to_string(p) + " is outside [0, 1)", "dropout_p");
  if (!tape.training() || p == 0.0) return {};
  Keep keep = keep_with(p, tape.context().seed(), tape.next_stream());
  keep.shift = stream_shift();
  return keep;
}

}  // namespace fovea
