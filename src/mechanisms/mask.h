#pragma once

#include "fovea/autograd.h"

namespace fovea {

// The bias with -inf where the mask (u8, true = keep) forbids; both broadcast against each other. Either may be
// undefined: then the other alone, as `dtype`; both undefined: undefined. Gradients flow to the bias where the mask
// keeps.
Var masked_bias(Tape& tape, const Var& bias, const Tensor& mask, DType dtype);

}  // namespace fovea
