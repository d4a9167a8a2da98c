// Attention on tensors whose items lie further apart than 32 bits reach: the bits of dense ones.

#include <gtest/gtest.h>

#include "fovea/attention.h"
#include "support/sparse_memory.h"
#include "support/tensors.h"

namespace fovea::testing {
namespace {

class FarApart : public ::testing::TestWithParam<const char*> {
 protected:
  // Output and gradients.
  std::vector<Tensor> run(const std::vector<Tensor>& x, const Tensor& seed) {
    Tape tape(context_);
    const Var q = Var::leaf(x[0]), k = Var::leaf(x[1]), v = Var::leaf(x[2]);
    const Var o = attention(tape, q, k, v, Mechanism::parse(GetParam()), {.causal = true}).output;
    tape.backward(o, seed);
    return {o.value(), q.grad(), k.grad(), v.grad()};
  }

  Context context_ = poisoned();
};
INSTANTIATE_TEST_SUITE_P(Engines, FarApart, ::testing::Values("softmax", "sparsemax", "window", "linear", "retnet"));

TEST_P(FarApart, GivesTheBitsOfDenseTensors) {
  std::vector<Tensor> dense, far;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    dense.push_back(random(context_, {2, 40, 2, 16}, i, DType::f32));
    far.push_back(far_apart(dense.back()));
  }
  const Tensor seed = random(context_, {2, 40, 2, 16}, 4, DType::f32);
  const std::vector<Tensor> want = run(dense, seed), got = run(far, far_apart(seed));
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
}

}  // namespace
}  // namespace fovea::testing
