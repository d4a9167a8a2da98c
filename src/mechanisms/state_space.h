#pragma once

#include "fovea/autograd.h"

namespace fovea {

// Parameters of a diagonal state space for each channel: step exp(log_dt) / 100, eigenvalues
// A_s = -exp(decay_s) / 2 + i (pi s + frequency_s), read-out c. All f32 or f64.
struct StateSpace {
  Var log_dt;            // (channels)
  Var decay, frequency;  // (channels, states)
  Var c;                 // (2, channels, states, 2): real and imaginary, of the past and of the future
};

// Impulse responses (1 or 2, channels, n): K_l = 2 Re sum over s of c_s (z_s - 1) / A_s z_s^l with z = exp(dt A). That
// of the future starts one step later: a token is not its own future.
Var impulse_responses(Tape& tape, const StateSpace& space, std::int64_t n, bool both);

}  // namespace fovea
