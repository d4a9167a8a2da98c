#include "conformance/suite.h"

// U1: every way of calling a mechanism gives what its plain definition gives.
namespace fovea::conformance {
namespace {

class Reference : public Law {
 protected:
  void check(DType dtype, double tolerance) {
    for (const OptionCase& option : option_cases()) {
      if (!supports(mechanism(), option.needs)) continue;
      if (chooses_anew(mechanism(), option, dtype)) continue;
      SCOPED_TRACE(option.name);
      const Trial trial = make_trial(context_, option, mechanism(), dtype);
      const Inputs inputs = random_inputs(context_, mechanism(), trial, dtype, 3);
      Tape tape(context_, {.training = trial.training});
      const AttentionResult result = run(context_, tape, inputs, mechanism(), trial);
      const Expected wanted = expected(context_, inputs, mechanism(), trial);
      EXPECT_LT(relative_error(result.output.value().to_vector<double>(), wanted.o), tolerance);
      if (result.lse.defined()) {
        EXPECT_LT(relative_error(result.lse.value().to_vector<double>(), wanted.lse), tolerance);
      }
      if (result.final_state.defined()) {
        EXPECT_EQ(result.final_state.dim(1), trial.kv_heads) << "states belong to heads of k and v";
        EXPECT_LT(relative_error(result.final_state.value().to_vector<double>(), wanted.final_state), tolerance);
      }
    }
  }
};

TEST_P(Reference, DoubleIsExact) { check(DType::f64, 1e-12); }
TEST_P(Reference, Float) { check(DType::f32, 3e-5); }
TEST_P(Reference, Half) { check(DType::f16, 2e-3); }

FOVEA_LAWS(Reference);

class ReferenceBfloat16 : public Reference {};
TEST_P(ReferenceBfloat16, Rounded) { check(DType::bf16, 1.6e-2); }
FOVEA_BFLOAT16_LAWS(ReferenceBfloat16);

}  // namespace
}  // namespace fovea::conformance
