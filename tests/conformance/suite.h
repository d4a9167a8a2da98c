#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance/trial.h"
#include "core/isa.h"

// The laws that every mechanism obeys, applied to every mechanism of mechanisms/list.inc. A new mechanism is tested by
// being on the list: nothing here names one.
namespace fovea::conformance {

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
std::vector<Case> cases();  // all variants on all instruction sets of this machine; on a card with the best
// On those that differ in more than products of bf16: avx512 stands for avx512-bf16 where nothing is bf16.
std::vector<Case> plain_cases();
void PrintTo(const Case& c, std::ostream* out);
std::string case_name(const ::testing::TestParamInfo<Case>& info);

// Where the laws are tried: the host (host.cc) or a card (tests/gpu/conformance).
Context law_context();  // its fresh memory is NaN
std::vector<Isa> law_isas();

// Forces the instruction set.
class Law : public ::testing::TestWithParam<Case> {
 protected:
  Law();
  const Mechanism& mechanism() const { return GetParam().variant.mechanism; }
  bool has(Feature feature) const { return mechanism().supports(feature); }

  Context context_;
};

}  // namespace fovea::conformance

// Instantiates laws for every mechanism, parameter choice and instruction set; those with bf16 among their numbers also
// where only its products differ.
#define FOVEA_LAWS(suite)                                                                      \
  INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::ValuesIn(fovea::conformance::plain_cases()), \
                           fovea::conformance::case_name)
#define FOVEA_BFLOAT16_LAWS(suite) \
  INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::ValuesIn(fovea::conformance::cases()), fovea::conformance::case_name)
