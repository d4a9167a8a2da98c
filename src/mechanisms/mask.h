#pragma once

#include "fovea/attention.h"

namespace fovea {

// The pairs of a pattern that causal order, window and pattern of a call keep, too.
Pattern kept_by(const AttentionOptions& options, Pattern pattern = {});

// The bias with -inf where the mask (u8, true = keep) forbids; both broadcast against each other. Either may be
// undefined: then the other alone, as `dtype`; both undefined: undefined. Gradients flow to the bias where the mask
// keeps.
Var masked_bias(Tape& tape, const Var& bias, const Tensor& mask, DType dtype);

}  // namespace fovea
