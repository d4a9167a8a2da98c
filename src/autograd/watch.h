#pragma once

#include "fovea/autograd.h"

namespace fovea {

// Stops at the first operation that makes something not finite. Slow: reads every number. Minus infinity passes: it is
// the log of nothing.
class FiniteWatch final : public TapeObserver {
 public:
  void on_values(const Tape& tape, const Op& op, std::span<const Tensor> values) override;
  void on_gradients(const Tape& tape, const Node& node) override;
};

}  // namespace fovea
