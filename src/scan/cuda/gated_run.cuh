#pragma once

#include "scan/cuda/gated_kernels.cuh"
#include "scan/cuda/mma_run.cuh"

namespace fovea::scan::cuda {

template <int kD>
void run_gated(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step) {
  constexpr int kBlocks = kD == 32 ? 5 : 2;
  switch (step) {
    case MmaStep::sum_keys: return launch_mma<kD, GatedSum<kD, false>, kBlocks>(launch, mma, cuts);
    case MmaStep::sum_queries: return launch_mma<kD, GatedSum<kD, true>, kBlocks>(launch, mma, cuts);
    case MmaStep::forward: return launch_mma<kD, GatedForward<kD>, kBlocks>(launch, mma, cuts);
    case MmaStep::queries: return launch_mma<kD, GatedQueries<kD>, kBlocks>(launch, mma, cuts);
    case MmaStep::keys: return launch_mma<kD, GatedKeys<kD>, kBlocks>(launch, mma, cuts);
  }
}

template <int kD>
int gated_bytes(bool backward) {
  return backward ? std::max(GatedSum<kD, true>::Memory::kBytes, GatedKeys<kD>::Memory::kBytes)
                  : std::max(GatedSum<kD, false>::Memory::kBytes, GatedForward<kD>::Memory::kBytes);
}

}  // namespace fovea::scan::cuda
