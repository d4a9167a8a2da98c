#pragma once

#include "scan/cuda/schedule.h"

// The portable engine: everything the contract has, in f32 or f64.
namespace fovea::scan::cuda {

template <class R>
void portable_forward(const Launch& launch, const Call& call, const Schedule& schedule, const Forward& io);
template <class R>
void portable_backward(const Launch& launch, const Call& call, const Schedule& schedule, const Backward& io);

}  // namespace fovea::scan::cuda
