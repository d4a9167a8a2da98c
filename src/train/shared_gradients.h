#pragma once

#include "dist/group.h"
#include "fovea/optim.h"

// What is known of all gradients, where these ranks have parts of the weights: the same on each of them.
namespace fovea {

// clip_norm() of the whole gradients: the squares of the parts are added up over the ranks.
Tensor clip_shares(Context& context, std::span<const Parameter> parameters, double limit, const dist::Group& ranks);

// What LossScaler::unscale() found: not finite on one, not finite on any.
void agree_on_finite(const Tensor& finite, const dist::Group& ranks);

}  // namespace fovea
