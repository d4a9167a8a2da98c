#pragma once

#include "fovea/autograd.h"

// Inverses of small matrices (..., p, p) by products alone; f32 or f64.
namespace fovea {

// `steps` of Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4 from A^T / (largest column sum of A). Meant for A with
// positive entries and rows that sum to 1, such as a softmax. What it gives before it has converged is a regularised
// inverse.
struct Iterated {
  std::int64_t steps = 6;
  bool one_start = false;  // from the largest column sum of all matrices, not each from its own
};
Var iterative_inverse(Tape& tape, const Var& a, const Iterated& options);

// The same for M + shift I with M symmetric and positive, its rows and columns scaled by the roots of its row sums
// before, and the result after.
struct Regularized {
  double shift = 0.0;
  Iterated iterated = {};
};
Var regularized_inverse(Tape& tape, const Var& m, const Regularized& options);

}  // namespace fovea
