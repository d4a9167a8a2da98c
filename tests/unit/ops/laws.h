#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "unit/ops/feature_cases.h"
#include "unit/ops/model_cases.h"

// What the laws of the operations are written with, on every device.
namespace fovea::testing {

inline constexpr TapeOptions kTraining{.record = true, .training = true, .stream = 3};

// Outputs first, then the gradients of the inputs.
inline std::vector<Tensor> forward_and_backward(Context& context, const Function& f, const std::vector<Tensor>& inputs,
                                                std::vector<Tensor> seeds = {}) {
  std::vector<Tensor> results;
  const Function noting = [&](Tape& tape, std::span<const Var> v) {
    std::vector<Var> outputs = f(tape, v);
    for (const Var& output : outputs) results.push_back(output.value().contiguous(context));
    return outputs;
  };
  for (Tensor& g : tape_gradients(context, noting, inputs, seeds, kTraining)) results.push_back(g.contiguous(context));
  return results;
}

inline std::vector<Tensor> converted(const Context& context, const std::vector<Tensor>& tensors, DType dtype) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.to(context, dtype));
  return out;
}

inline std::vector<Tensor> moved(const Context& context, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.clone(context));
  return out;
}

// How often an operation asks the device for a number: whether an index is right that nobody has vouched for.
inline int answers_of(const std::string& name) {
  constexpr std::pair<std::string_view, int> kAnswers[] = {
      {"embedding", 1},         {"gather", 1},      {"take_rows", 1}, {"put_rows", 2}, {"cross_entropy", 1},
      {"linear_class_loss", 1}, {"scatter_rows", 2}};
  for (const auto& [operation, count] : kAnswers)
    if (name.starts_with(operation)) return count;
  return 0;
}

}  // namespace fovea::testing
