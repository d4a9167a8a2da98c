#pragma once

#include "fovea/autograd.h"

namespace fovea {

// Parameters of a diagonal state space for each channel: step dt = exp(log_dt) / 100, eigenvalues
// A_s = -exp(decay_s) / 2 + i (pi s + frequency_s), read-out c. All f32 or f64.
struct StateSpace {
  Var log_dt;            // (channels)
  Var decay, frequency;  // (channels, states)
  Var c;                 // (2, channels, states, 2): real and imaginary, of the past and of the future
};

// u (b, channels, n) -> y, the same shape: y_i = sum of K_(i-j) u_j over j <= i with
// K_l = 2 Re sum over s of c_s (z_s - 1) / A_s z_s^l, z = exp(dt A); of the future, sum of K_(j-i-1) u_j over j > i.
enum class Reads : std::uint8_t { past, future };
Var filter(Tape& tape, const Var& u, const StateSpace& space, Reads reads);

}  // namespace fovea
