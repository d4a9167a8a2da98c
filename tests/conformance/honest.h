#pragma once

#include <string>
#include <vector>

#include "conformance/trial.h"

// How large the error of a gradient may be: twice that of an honest computation of the same formula in the same type.
namespace fovea::conformance {

// Gradients with their names, those of a call that has none of a kind empty.
struct NamedGradient {
  std::string name;
  const std::vector<double>* values;
};
std::vector<NamedGradient> named(const Gradients& gradients);

double distance(const std::vector<double>& a, const std::vector<double>& b);  // Euclidean; NaN where sizes differ

// A call in double, of numbers that a coarser type holds, and its gradients.
struct ExactCall {
  Context& context;
  const Inputs& inputs;
  const Mechanism& mechanism;
  const Trial& trial;
  const Gradients& gradients;
};

// What an honest computation in a type rounds: all that goes in, once more (what stands between is rounded in the same
// way; a rectified score may then fall on the other side), its results, and sums in the wide type.
struct Roundings {
  DType dtype;
  bool scores = true;  // q, k, weights and biases: a mechanism that chooses would choose otherwise
  bool values = true;  // v
  // Those of a row before their product with v: the row is then as if multiplied with a sum of them that is off by one
  // rounding over the root of the keys, and backward subtracts what no longer fits.
  bool weights = false;
};

// The error of each gradient of `named`, as an Euclidean norm: how far it moves in so many draws of these roundings.
// That of sums is what the last bits of double and another order of sums move, as much more as the wide type is
// coarser. Terms as large as the outputs cancel in double and need not elsewhere; weights may be too small for the
// type.
std::vector<double> honest_errors(const ExactCall& call, const Roundings& roundings, int draws);

}  // namespace fovea::conformance
