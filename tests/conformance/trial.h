#pragma once

#include <optional>
#include <vector>

#include "fovea/attention.h"
#include "mechanisms/kind.h"

// A call of attention with random numbers, as it runs and as its definition says: what the laws and the random calls
// (tests/fuzz) share.
namespace fovea {
class Random;
}

namespace fovea::conformance {

// Sizes of a test, and the options of its call. Odd on purpose.
struct Trial {
  std::int64_t batch = 2, n_q = 19, n_k = 19, heads = 4, kv_heads = 2, d_k = 6, d_v = 5;
  std::int64_t width = 7;  // of the layer's input
  AttentionOptions options;
  bool training = false;    // dropout is active
  bool with_state = false;  // an initial state is to be made
};

// Random inputs (normal, v with a mean) of a trial, as leaves.
struct Inputs {
  Var q, k, v;
  Var input;                 // where the mechanism reads it
  std::vector<Var> weights;  // where it has any; learned ones are random, whatever they start with

  std::vector<Var> tokens() const;  // q, k, v and the input: what has a row for every token
  std::vector<Var> leaves() const;  // all that have a gradient
  // The same with other tokens, made one by one from these.
  template <class F>
  Inputs with(const F& make) const {
    return {make(q), make(k), make(v), input.defined() ? make(input) : Var(), weights};
  }
};
// Every element x becomes f(x, index), wherever the tensor lies.
template <class F>
void edit(const Tensor& t, const F& f) {
  std::vector<double> values = t.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(values[i], i);
  t.copy_from(Tensor::wrap(values.data(), t.shape(), DType::f64));
}

// kv_heads are set to heads where the mechanism has no grouped form.
void fit(const Mechanism& mechanism, Trial& trial);
// A trial in a form that the mechanism has: causal where it has no other.
Trial usual_trial(const Mechanism& mechanism);
Inputs random_inputs(Context& context, const Mechanism& mechanism, const Trial& trial, DType dtype, std::uint64_t seed);

AttentionResult run(Context& context, Tape& tape, const Inputs& inputs, const Mechanism& mechanism, const Trial& trial);

// The double-precision definition on the same numbers; o is (b, n_q, heads, d_v), lse (b, n_q, heads).
struct Expected {
  std::vector<double> o, lse, final_state;
};
Expected expected(const Context& context, const Inputs& inputs, const Mechanism& mechanism, const Trial& trial);

double rounding_of(DType dtype);                       // half the spacing of its numbers at 1
double least_of(DType dtype);                          // above 0
double moved(double x, double noise, Random& random);  // x times 1 + noise or 1 - noise

// max |a - b| / max(|b|), NaN when any difference is NaN; equal infinities agree.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

// Gradients of sum(o * w) (and of the other outputs, when asked for) with fixed random weights w.
struct Gradients {
  std::vector<double> q, k, v, bias, diagonals, initial_state, input;
  std::vector<std::vector<double>> weights;
};
// How w goes in: rounded to the type of the output, or to that of a coarser call that this one is held against, and
// then times 1 + noise or 1 - noise, at random. `rows`: so much noise for each row of the attended values, as backward
// finds them.
struct Pull {
  std::optional<DType> rounded;
  double noise = 0.0;
  std::uint64_t seed = 0;
  double rows = 0.0;
};
Gradients gradients(Context& context, const Inputs& inputs, const Mechanism& mechanism, const Trial& trial,
                    const Pull& pull = {});
// The value that is differentiated.
double objective(Context& context, const Inputs& inputs, const Mechanism& mechanism, const Trial& trial);

}  // namespace fovea::conformance
