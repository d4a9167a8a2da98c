#pragma once

#include "dist/mesh.h"
#include "fovea/optim.h"

// What is known of all gradients, where ranks have parts of them, of the weights or of the layers: the same on each.
namespace fovea {

// clip_norm() of the whole gradients: squares are added up over the ranks that have all weights together.
Tensor clip_shares(Context& context, std::span<const Parameter> parameters, double limit, const dist::Mesh& mesh);

// What LossScaler::unscale() found: not finite on one, not finite on any.
void agree_on_finite(const Tensor& finite, const dist::Mesh& mesh);

}  // namespace fovea
