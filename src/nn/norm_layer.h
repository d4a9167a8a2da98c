#pragma once

#include "nn/layout.h"
#include "nn/scope.h"

namespace fovea::nn {

// The norm of a stack: over the features of each row (layer, rms), or over channels (batch, instance, group), with gain
// (and but for rms bias) unless the config leaves them out.
class NormLayer {
 public:
  NormLayer(const Scope& scope, const StackConfig& config);

  Var operator()(Tape& tape, const Var& x, const Layout& layout) const;
  // sum = x + dropout(branch, p), normed = norm(sum): in one pass where rows are normalised by themselves.
  AddNorm add(Tape& tape, const Var& x, const Var& branch, double dropout_p, const Layout& layout) const;

  bool by_rows() const { return kind_ <= StackNorm::rms_a; }
  Norm row_norm() const;  // where it is by rows

 private:
  Var over_channels(Tape& tape, const Var& x, const Sequences& rows) const;

  StackNorm kind_;
  double eps_;
  std::int64_t groups_;
  bool causal_;
  Var gain_, bias_;                    // (width)
  Tensor running_mean_, running_var_;  // of a batch norm
};

}  // namespace fovea::nn
