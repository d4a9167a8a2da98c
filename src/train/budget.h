#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "fovea/train.h"

namespace fovea {

// What a run has had of its budget.
struct Spent {
  std::int64_t steps = 0;
  double seconds = 0.0;
  std::int64_t tokens = 0;
};

// What ends a run: a number of steps and, where minutes or tokens > 0, a time and a number of tokens, whichever comes
// first.
struct Budget {
  std::int64_t steps = 0;
  double minutes = 0.0;
  std::int64_t tokens = 0;

  double seconds() const { return 60.0 * minutes; }

  // The last step of the run: as configured, or where the clock or the tokens will stop it at the pace so far.
  double expected_steps(const Spent& s) const {
    const double other = other_share(s);
    const auto limit = static_cast<double>(steps);
    return s.steps == 0 || other <= 0.0 ? limit : std::min(limit, static_cast<double>(s.steps) / other);
  }

  // Share of the run that is over, in [0, 1].
  double progress(const Spent& s) const {
    return std::min(1.0, std::max(static_cast<double>(s.steps) / static_cast<double>(steps), other_share(s)));
  }

  // How many of so many equal parts of the run are over.
  std::int64_t parts(const Spent& s, std::int64_t all) const {
    return static_cast<std::int64_t>(std::floor(progress(s) * static_cast<double>(all) + 1e-9));
  }

  std::optional<StopReason> over(const Spent& s) const {
    if (s.steps >= steps) return StopReason::steps;
    if (minutes > 0.0 && s.seconds >= seconds()) return StopReason::minutes;
    if (tokens > 0 && s.tokens >= tokens) return StopReason::tokens;
    return std::nullopt;
  }

 private:
  // By the clock or the tokens.
  double other_share(const Spent& s) const {
    const double clock = minutes > 0.0 ? s.seconds / seconds() : 0.0;
    return std::max(clock, tokens > 0 ? static_cast<double>(s.tokens) / static_cast<double>(tokens) : 0.0);
  }
};

}  // namespace fovea
