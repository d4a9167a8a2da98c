#pragma once

#include "core/cuda/launch.h"
#include "scan/contract.h"

// The linear engine on a card: the contract of scan/contract.h, arrays and states in device memory, pieces and decays
// of heads on the host. Lists of pieces are uploaded when first seen and kept. Calls return before the work is done;
// everything runs in the order of the stream, and sums have a fixed order.
namespace fovea::scan::cuda {

using namespace device;  // NOLINT: what the engines on a card share

// Which kernels did the work; none where there are no pieces.
enum class Kernels : std::uint8_t { none, portable, tensor_cores };

Kernels forward(const Launch& launch, const Problem& problem, const Forward& io);
Kernels backward(const Launch& launch, const Problem& problem, const Backward& io);

}  // namespace fovea::scan::cuda
