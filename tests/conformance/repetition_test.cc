#include "conformance/suite.h"
#include "tile/plan.h"

// What a call costs when it comes again.
namespace fovea::conformance {
namespace {

class Repetition : public Law {};

TEST_P(Repetition, CompilesNoPlanTwice) {
  for (const OptionCase& option : option_cases()) {
    if (!supports(mechanism(), option.needs)) continue;
    SCOPED_TRACE(option.name);
    const Trial trial = make_trial(context_, option, mechanism(), DType::f32);
    const Inputs inputs = random_inputs(context_, mechanism(), trial, DType::f32, 3);
    gradients(context_, inputs, mechanism(), trial);
    const std::uint64_t compiled = tile::compiled_plans();
    gradients(context_, inputs, mechanism(), trial);
    EXPECT_EQ(tile::compiled_plans(), compiled);
  }
}

// Plans know no instruction set: one is enough.
std::vector<Case> best_cases() {
  std::vector<Case> all;
  for (const Case& c : cases())
    if (c.isa == available_isas().back()) all.push_back(c);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Repetition, ::testing::ValuesIn(best_cases()), case_name);

}  // namespace
}  // namespace fovea::conformance
