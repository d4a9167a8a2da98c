#pragma once

#include "tile/cuda/schedule.h"
#include "tile/cuda/view.h"

// The tensor-core kernels: half types, rows of whole 16-byte pieces, plans of kTile. They return false for what they do not
// take. Blocks in which a hidden pair would meet a NaN or an infinity are done again by the portable kernels.
namespace fovea::tile::cuda {

bool mma_forward(const Launch& launch, const Call& call, const Schedule& schedule);
bool mma_backward(const Launch& launch, const Call& call, const Schedule& schedule);

}  // namespace fovea::tile::cuda
