#pragma once

#include <optional>
#include <vector>

#include "fovea/attention.h"

namespace fovea {

// One attention problem of a benchmark: self-attention over random q, k, v.
struct AttentionProblem {
  Mechanism mechanism{"softmax"};
  std::int64_t batch = 1, n = 1024, heads = 8, dim = 64;
  std::vector<std::int32_t> packed = {};  // lengths of the sequences that n rows consist of; empty: one for each item
  bool causal = false;
  std::optional<Window> window;
  DType dtype = DType::f32;

  double forward_flops() const;
  double backward_flops() const;
};

// Random inputs and an output gradient, each (batch, n, heads, dim); cases of one shape share them.
struct AttentionData {
  Tensor q, k, v, grad, input;  // input (batch, n, heads * dim): what a layer would have projected
};
AttentionData random_data(const Context& context, const AttentionProblem& problem);

// Runs a problem through attention() as a user would. Outputs and gradients come from recycled blocks after the first
// run.
class AttentionCase {
 public:
  AttentionCase(Context& context, AttentionProblem problem, AttentionData data);

  const AttentionProblem& problem() const { return problem_; }

  double forward();   // seconds of a pass that records nothing
  double backward();  // seconds of Tape::backward alone; the recorded forward pass before it is not timed
  double both();      // seconds of the two together
  std::size_t peak_memory(bool with_backward);  // extra bytes of one pass: outputs, gradients and scratch

 private:
  Var output(Tape& tape) const;

  Context& context_;
  AttentionProblem problem_;
  AttentionOptions options_;
  AttentionData data_;
};

}  // namespace fovea
