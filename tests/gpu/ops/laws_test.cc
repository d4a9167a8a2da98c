// The operations on a card against the same in double on the host, over the list of cases that the host has.

#include "unit/ops/laws.h"
#include "gpu/ops/width_cases.h"
#include "gpu/support/card.h"

namespace fovea::testing {
namespace {

class OnCard : public ::testing::TestWithParam<OpCase> {
 protected:
  Context host_ = poisoned();
  Context card_ = poisoned_card();
};

// With 8 units of the last place, as the host has; the same bits when asked again; and no more numbers come back than
// the operation needs on the host.
TEST_P(OnCard, AgreesWithDouble) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const std::vector<Tensor> inputs = random_inputs(host_, GetParam(), GetParam().large, dtype);
    std::vector<Tensor> seeds;
    tape_gradients(host_, GetParam().f, inputs, seeds, kTraining);
    const auto want = forward_and_backward(host_, GetParam().f, converted(host_, inputs, DType::f64),
                                           converted(host_, seeds, DType::f64));
    const auto here = moved(card_, inputs), pulls = moved(card_, seeds);
    device::CardMemory& memory = memory_of(card_);
    memory.reset_counts();
    const auto got = forward_and_backward(card_, GetParam().f, here, pulls);
    EXPECT_LE(memory.reads(), answers_of(GetParam().name));
    ASSERT_EQ(got.size(), want.size());
    const auto again = forward_and_backward(card_, GetParam().f, here, pulls);
    const double allowed = dtype == DType::f64 ? 1e-12 : 8 * epsilon(dtype);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].device(), Device::cuda);
      const Tensor result = got[i].clone(host_);
      EXPECT_LT(relative_error(result, want[i]), allowed) << "result " << i;
      EXPECT_TRUE(same_bits(result, again[i].clone(host_))) << "result " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OnCard, ::testing::ValuesIn(op_cases()), kNamedAsPrinted);
INSTANTIATE_TEST_SUITE_P(Widths, OnCard, ::testing::ValuesIn(width_cases()), kNamedAsPrinted);
INSTANTIATE_TEST_SUITE_P(Sequences, OnCard, ::testing::ValuesIn(sequence_cases()), kNamedAsPrinted);
INSTANTIATE_TEST_SUITE_P(Models, OnCard, ::testing::ValuesIn(model_cases()), kNamedAsPrinted);
INSTANTIATE_TEST_SUITE_P(Features, OnCard, ::testing::ValuesIn(feature_cases()), kNamedAsPrinted);

}  // namespace
}  // namespace fovea::testing
