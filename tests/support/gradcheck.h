#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fovea/autograd.h"
#include "support/tensors.h"

namespace fovea::testing {

// Something differentiable: values in, values out. It must compute the same every time it is asked.
using Function = std::function<std::vector<Var>(Tape&, std::span<const Var>)>;

struct Gradcheck {
  double step = 1e-5;       // of the central difference, for inputs of size 1
  double tolerance = 1e-6;  // of the difference, against the largest gradient of the input (at least 1)
  TapeOptions tape = {};
};

// sum over the outputs of <seed, output>.
inline double weighted_sum(std::span<const Var> outputs, std::span<const Tensor> seeds) {
  double sum = 0.0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto values = outputs[o].value().to_vector<double>(), weights = seeds[o].to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
  }
  return sum;
}

// Gradients of <seeds, f(inputs)> by the tape; random seeds where none are given. Undefined where nothing flows.
inline std::vector<Tensor> tape_gradients(Context& context, const Function& f, const std::vector<Tensor>& inputs,
                                          std::vector<Tensor>& seeds, const TapeOptions& options = {}) {
  Tape tape(context, options);
  std::vector<Var> leaves;
  for (const Tensor& t : inputs) leaves.push_back(Var::leaf(t));
  const std::vector<Var> outputs = f(tape, leaves);
  for (std::size_t o = seeds.size(); o < outputs.size(); ++o)
    seeds.push_back(random(context, outputs[o].shape(), 100 + o, outputs[o].dtype()));
  tape.backward(outputs, seeds);
  std::vector<Tensor> gradients;
  for (const Var& leaf : leaves) gradients.push_back(leaf.grad());
  return gradients;
}

// A function at its inputs, weighted to one number.
struct Probe {
  Context& context;
  const Function& f;
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& seeds;

  double value(TapeOptions options) const {
    options.record = false;
    Tape tape(context, options);
    const std::vector<Var> constants(inputs.begin(), inputs.end());
    return weighted_sum(f(tape, constants), seeds);
  }
};

// The derivative by one element of one input.
inline double central_difference(const Probe& probe, double& element, const Gradcheck& check) {
  const double original = element, step = check.step * std::max(1.0, std::abs(original));
  element = original + step;
  const double up = probe.value(check.tape);
  element = original - step;
  const double down = probe.value(check.tape);
  element = original;
  return (up - down) / (2.0 * step);
}

// Compares the gradients of every input (f64, dense) with central differences.
inline void expect_gradients(Context& context, const Function& f, const std::vector<Tensor>& inputs,
                             const Gradcheck& check = {}) {
  std::vector<Tensor> seeds;
  const std::vector<Tensor> gradients = tape_gradients(context, f, inputs, seeds, check.tape);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    SCOPED_TRACE("gradient of input " + std::to_string(k));
    ASSERT_TRUE(gradients[k].defined());
    const std::vector<double> got = gradients[k].to_vector<double>();
    double largest = 1.0;
    for (double g : got) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double want = central_difference({context, f, inputs, seeds}, inputs[k].data<double>()[i], check);
      ASSERT_NEAR(got[i], want, check.tolerance * largest)
          << "element " << i << " of shape " << inputs[k].shape().text();
    }
  }
}

// The same for a function of one output.
inline void expect_gradients(Context& context, const std::function<Var(Tape&, std::span<const Var>)>& f,
                             const std::vector<Tensor>& inputs, const Gradcheck& check = {}) {
  expect_gradients(context, Function([&](Tape& tape, std::span<const Var> v) { return std::vector<Var>{f(tape, v)}; }),
                   inputs, check);
}

}  // namespace fovea::testing
