#pragma once

#include <string>
#include <vector>

#include "fovea/attention.h"
#include "fuzz/spec.h"

namespace fovea::fuzz {

// An input of a call: its numbers as doubles that its dtype holds exactly.
struct Leaf {
  std::string name;
  Shape shape;
  DType dtype = DType::f64;
  bool trained = true;
  std::vector<double> values;
};

struct Case {
  Spec spec;
  Mechanism mechanism;
  DType dtype;
  std::vector<Leaf> leaves;                             // q, k, v; what else the call has; its weights
  mutable std::vector<std::vector<double>> drawn = {};  // pulls of the outputs, kept for the next run
};
Case make_case(const Spec& spec);

// A result as rows of `row` numbers.
struct Part {
  std::string name;
  std::int64_t row = 1;
  std::vector<double> values;
};

// Every input and every gradient of an output times 1 + size * a random sign; or, of a call as it is, what forward has
// given out, which backward may read.
struct Noise {
  double size = 0.0;
  std::uint64_t seed = 0;
  bool portable = false;  // on the weakest instruction set, which sums in another order
  bool of_outputs = false;
};

struct Outcome {
  std::vector<Part> outputs, gradients;  // output, log-sum-exp, final state; of every trained leaf
};

// The call as the spec has it (dtype, strides, instruction set), as often as it says: `differs` names the first result
// whose bits another call of the same did not give.
struct Subject {
  Outcome outcome;
  std::string differs;
};
Subject run_subject(const Case& c);
// The same numbers in double, dense, on one thread.
Outcome run_exact(const Case& c, const Noise& noise = {});

// The outputs by the plain definition, at leaves + step * direction (one for each leaf; empty: none).
struct Move {
  double step = 0.0;
  const std::vector<std::vector<double>>* direction = nullptr;
};
std::vector<Part> define(const Case& c, const Move& move = {});
// The gradients of the outputs that go into backward: 0 where an output is not finite.
std::vector<double> pulls(const Case& c, const Part& output, std::size_t index);

// Runs a call that must be refused; what is wrong with how it was, or nothing.
std::string run_wrong(const Spec& spec);

// The rows of (batch, n) that belong to no sequence, as indices.
std::vector<std::int64_t> padding(const Sequences& sequences, std::int64_t batch, std::int64_t n);

}  // namespace fovea::fuzz
