#pragma once

#include <memory>

#include "core/wide.h"
#include "fovea/autograd.h"
#include "tensor/views.h"

// Gradients of parameters that are sums over rows.
namespace fovea {

// Room for the sums (width) of a parameter: its gradient where it has none yet. Undefined: not wanted.
inline Tensor sums_for(Tape& tape, const std::shared_ptr<Slot>& slot, std::int64_t width, DType dtype) {
  if (slot == nullptr) return {};
  if (slot->leaf && !slot->grad.defined() && wide_type(slot->dtype) == dtype) return tape.target(slot).grad;
  return Tensor::empty(tape.context(), {width}, dtype);
}

// The sums are there.
inline void give_sums(Tape& tape, const std::shared_ptr<Slot>& slot, const Tensor& sums) {
  if (slot != nullptr && !(slot->grad.defined() && same_place(slot->grad, sums))) tape.accumulate(slot, sums);
}

}  // namespace fovea
