#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "fovea/train.h"

namespace fovea {

// What ends a run: a number of steps and, where minutes > 0, a time, whichever comes first.
struct Budget {
  std::int64_t steps = 0;
  double minutes = 0.0;

  double seconds() const { return 60.0 * minutes; }

  // The last step of the run: as configured, or where the clock will stop it at the speed of the steps done so far.
  double expected_steps(std::int64_t done, double taken) const {
    const auto limit = static_cast<double>(steps);
    if (minutes <= 0.0 || done == 0 || taken <= 0.0) return limit;
    return std::min(limit, static_cast<double>(done) * seconds() / taken);
  }

  // Share of the run that is over, in [0, 1].
  double progress(std::int64_t done, double taken) const {
    const double by_steps = static_cast<double>(done) / static_cast<double>(steps);
    const double by_clock = minutes > 0.0 ? taken / seconds() : 0.0;
    return std::min(1.0, std::max(by_steps, by_clock));
  }

  std::optional<StopReason> over(std::int64_t done, double taken) const {
    if (done >= steps) return StopReason::steps;
    if (minutes > 0.0 && taken >= seconds()) return StopReason::minutes;
    return std::nullopt;
  }
};

}  // namespace fovea
