// Laws that every operation obeys, over the list of cases.

#include "unit/ops/laws.h"
#include "support/fenced_memory.h"

namespace fovea::testing {
namespace {

class OpLaws : public ::testing::TestWithParam<OpCase> {
 protected:
  Context context_ = poisoned();
};

TEST_P(OpLaws, GradientsMatchFiniteDifferences) {
  Gradcheck check;
  check.tape = kTraining;
  expect_gradients(context_, GetParam().f, random_inputs(context_, GetParam(), GetParam().small, DType::f64), check);
}

// Against f64 on the same rounded inputs and seeds, on every instruction set.
TEST_P(OpLaws, NarrowTypesAgreeWithDouble) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const std::vector<Tensor> inputs = random_inputs(context_, GetParam(), GetParam().large, dtype);
    std::vector<Tensor> seeds;
    tape_gradients(context_, GetParam().f, inputs, seeds, kTraining);
    const auto want = forward_and_backward(context_, GetParam().f, converted(context_, inputs, DType::f64),
                                           converted(context_, seeds, DType::f64));
    on_every_isa([&](Isa) {
      const auto got = forward_and_backward(context_, GetParam().f, inputs, seeds);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(relative_error(got[i], want[i]), 8 * epsilon(dtype)) << "result " << i;
    });
  }
}

TEST_P(OpLaws, SameBitsAtAnyThreadCount) {
  if (GetParam().vendor) return;  // the vendor's product decides; NarrowTypesAgreeWithDouble bounds it
  for (DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<Tensor> inputs = random_inputs(context_, GetParam(), GetParam().large, dtype);
    context_.set_threads(1);
    const auto one = forward_and_backward(context_, GetParam().f, inputs);
    for (const int threads : {2, 3}) {
      context_.set_threads(threads);
      const auto more = forward_and_backward(context_, GetParam().f, inputs);
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_TRUE(same_bits(one[i], more[i])) << "result " << i << ", " << threads << " threads";
    }
  }
}

// Memory that only kernels can touch: the same bits come out of it, and numbers go to the host only where an operation
// needs them there.
TEST_P(OpLaws, RunsOnAnotherDevice) {
  const auto memory = std::make_shared<FencedMemory>();
  Context device({.threads = 2, .seed = 7, .memory = {.poison = true}, .pages = memory});
  for (DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<Tensor> inputs = random_inputs(context_, GetParam(), GetParam().large, dtype);
    std::vector<Tensor> seeds;
    tape_gradients(context_, GetParam().f, inputs, seeds, kTraining);
    const auto want = forward_and_backward(context_, GetParam().f, inputs, seeds);
    const auto here = moved(device, inputs), pulls = moved(device, seeds);
    memory->reads = 0;
    const auto got = forward_and_backward(device, GetParam().f, here, pulls);
    EXPECT_LE(memory->reads, answers_of(GetParam().name));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].device(), Device::fenced);
      EXPECT_TRUE(same_bits(got[i].clone(context_), want[i])) << name_of(dtype) << ", result " << i;
    }
  }
}

TEST_P(OpLaws, ConstantsRecordNothing) {
  Tape tape(context_, kTraining);
  std::vector<Var> constants;
  for (const Tensor& t : random_inputs(context_, GetParam(), GetParam().small, DType::f32)) constants.emplace_back(t);
  for (const Var& output : GetParam().f(tape, constants)) EXPECT_FALSE(output.needs_grad());
  EXPECT_EQ(tape.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Ops, OpLaws, ::testing::ValuesIn(op_cases()), kNamedAsPrinted);
INSTANTIATE_TEST_SUITE_P(Sequences, OpLaws, ::testing::ValuesIn(sequence_cases()), kNamedAsPrinted);
INSTANTIATE_TEST_SUITE_P(Models, OpLaws, ::testing::ValuesIn(model_cases()), kNamedAsPrinted);
INSTANTIATE_TEST_SUITE_P(Features, OpLaws, ::testing::ValuesIn(feature_cases()), kNamedAsPrinted);

}  // namespace
}  // namespace fovea::testing
