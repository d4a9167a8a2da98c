#pragma once

#include <memory>

#include "fuzz/case.h"

namespace fovea::nn {
class AttentionLayer;
}

namespace fovea::fuzz {

// An attention layer of a case: its input and its parameters as leaves, and its output.
class Layer {
 public:
  // With the leaves' numbers as activations of `dtype`; without any, as a new layer starts.
  Layer(Context& context, const Spec& spec, DType dtype, const std::vector<Leaf>& leaves = {});
  ~Layer();

  Var run(Tape& tape) const;
  const std::vector<Var>& vars() const { return vars_; }            // x, then the parameters
  const std::vector<std::string>& names() const { return names_; }  // of the leaves

 private:
  const Spec& spec_;
  std::unique_ptr<nn::AttentionLayer> layer_;
  std::vector<Var> vars_;
  std::vector<std::string> names_;
};

// The same by plain products and the mechanism's definition: (b, n, width).
std::vector<double> define_layer(const Case& c, const std::vector<Leaf>& leaves);

}  // namespace fovea::fuzz
