#pragma once

#include <memory>
#include <utility>

#include "fovea/autograd.h"

namespace fovea {

// Where the gradient of a value will be collected.
inline std::shared_ptr<Slot> new_slot(const Tensor& value) {
  auto slot = std::make_shared<Slot>();
  slot->shape = value.shape();
  slot->dtype = value.dtype();
  return slot;
}

// A value whose gradient is wanted, in its own type and taken over by the first contribution, as between two layers of
// a model. Var::leaf() makes those whose gradients are kept.
inline Var wanted(Tensor value) {
  auto slot = new_slot(value);
  return {std::move(value), std::move(slot)};
}

}  // namespace fovea
