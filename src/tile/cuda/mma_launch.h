#pragma once

#include "tile/cuda/schedule.h"
#include "tile/cuda/simt_launch.h"
#include "tile/cuda/view.h"

// The tensor-core kernels: half types, rows of whole 16-byte pieces, plans of kTile. They return false for what they do
// not take. Blocks in which a hidden pair would meet a NaN or an infinity are done again by the portable kernels.
namespace fovea::tile::cuda {

bool mma_forward(const Launch& launch, const Call& call, const Schedule& schedule);
// dq, dk and dv. Of outputs in f32 d_o is to be a half type by then: call.gradient_type.
bool mma_takes_backward(const Call& call, const Schedule& schedule);
// The gradient of a bias that every pair has for itself, batch items and heads maybe sharing it.
bool mma_add_bias(const Launch& launch, const Call& call, const Schedule& schedule);
bool mma_backward(const Launch& launch, const Call& call, const Schedule& schedule);

// Does backward read row statistics? Not where it works on pairs of tiles and nothing is hidden.
bool reads_statistics(const Call& call, const Schedule& schedule);

// What a kernel was compiled for: softmax with a positive scale and nothing more, the same with products of warpgroups
// (Hopper alone), or anything.
enum class Variant : std::uint8_t { softmax, hopper, general };

struct MmaKernel {
  int width, tiles;  // widest head, blocks of an own tile
  int bytes;         // of shared memory: cards that have less do without it
  Variant variant;
  Role role;
  void (*run)(const Launch& launch, const Call& call, dim3 grid);
};
inline constexpr int kHopperKernels = 9, kDiagonalKernels = 3;  // of each half type

}  // namespace fovea::tile::cuda
