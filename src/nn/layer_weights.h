#pragma once

#include <cstdint>
#include <string_view>

#include "fovea/autograd.h"

namespace fovea::nn {

// The weights of a stack's layers, where each rank keeps a share of them: those of a layer are whole while it is used.
class LayerWeights {
 public:
  virtual ~LayerWeights() = default;

  // Where the weights of a parameter lie; undefined: it is none of these.
  virtual Tensor room(std::string_view name) const = 0;
  // Calls of all ranks. What is open already is left as it is.
  virtual void open(std::int64_t layer) = 0;
  virtual void close(std::int64_t layer) = 0;
};

// The layer that a parameter of a stack is in; -1: none.
std::int64_t layer_of(std::string_view name);

// x itself, at the border of a layer: forward its weights are opened before it and closed after it, and backward the
// other way round. `weights` outlives the tape.
Var enter_layer(Tape& tape, const Var& x, LayerWeights& weights, std::int64_t layer);
Var leave_layer(Tape& tape, const Var& x, LayerWeights& weights, std::int64_t layer);

}  // namespace fovea::nn
