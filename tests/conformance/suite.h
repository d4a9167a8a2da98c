#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/isa.h"
#include "fovea/attention.h"
#include "mechanisms/kind.h"

// The laws that every mechanism obeys, applied to every mechanism of mechanisms/list.inc. A new mechanism is tested by
// being on the list: nothing here names one.
namespace fovea::conformance {

// Sizes of a test, and the options of its call. Odd on purpose.
struct Trial {
  std::int64_t batch = 2, n_q = 19, n_k = 19, heads = 4, kv_heads = 2, d_k = 6, d_v = 5;
  std::int64_t width = 7;  // of the layer's input
  AttentionOptions options;
  bool training = false;    // dropout is active
  bool with_state = false;  // an initial state is to be made
};

// One way of calling attention. `apply` changes the trial; it may allocate tensors of the given floating type.
struct OptionCase {
  std::string name;
  std::vector<Feature> needs;
  void (*apply)(Context& context, Trial& trial, DType wide);
};
const std::vector<OptionCase>& option_cases();
Trial make_trial(Context& context, const OptionCase& option, const Mechanism& mechanism, DType dtype);

// A mechanism with one setting of its parameters: the defaults, every other choice, small whole numbers.
struct Variant {
  std::string label;  // fit for a test name
  Mechanism mechanism;
};
std::vector<Variant> variants();

bool supports(const Mechanism& mechanism, const std::vector<Feature>& needs);
// A rotation rounds q and k once more in half precision: a mechanism that chooses may choose otherwise than in double.
bool chooses_anew(const Mechanism& mechanism, const OptionCase& option, DType dtype);

// Parameter of every conformance test: a variant on an instruction set.
struct Case {
  Variant variant;
  Isa isa;
};
std::vector<Case> cases();  // all variants on all instruction sets of this machine
void PrintTo(const Case& c, std::ostream* out);
std::string case_name(const testing::TestParamInfo<Case>& info);

// Forces the instruction set and makes a context whose fresh memory is NaN.
class Law : public testing::TestWithParam<Case> {
 protected:
  Law();
  const Mechanism& mechanism() const { return GetParam().variant.mechanism; }
  bool has(Feature feature) const { return mechanism().supports(feature); }

  Context context_;
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

// max |a - b| / max(|b|), NaN when any difference is NaN; equal infinities agree.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

// Gradients of sum(o * w) (and of the other outputs, when asked for) with fixed random weights w.
struct Gradients {
  std::vector<double> q, k, v, bias, diagonals, initial_state, input;
  std::vector<std::vector<double>> weights;
};
Gradients gradients(Context& context, const Inputs& inputs, const Mechanism& mechanism, const Trial& trial);
// The value that is differentiated.
double objective(Context& context, const Inputs& inputs, const Mechanism& mechanism, const Trial& trial);

}  // namespace fovea::conformance

// Instantiates the laws of a file for every mechanism, parameter choice and instruction set.
#define FOVEA_LAWS(suite) \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::ValuesIn(fovea::conformance::cases()), fovea::conformance::case_name)
