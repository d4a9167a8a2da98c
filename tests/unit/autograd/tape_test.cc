#include <gtest/gtest.h>

#include "fovea/autograd.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/autograd/small_ops.h"

namespace fovea::testing {
namespace {

TEST(Tape, FiniteDifferencesAgree) {
  Context context = poisoned();
  expect_gradients(
      context, [](Tape& tape, std::span<const Var> v) { return join(tape, square(tape, square(tape, v[0])), v[1]); },
      {random(context, {3, 2}, 1), random(context, {3, 2}, 2)});
}

TEST(Tape, TheCheckerSeesAWrongGradient) {
  static constexpr Op kWrong{"wrong", [](Tape& tape, Node& node) { tape.accumulate(node.inputs[0], node.grad()); }};
  Context context = poisoned();
  const Tensor x = random(context, {3}, 1);
  std::vector<Tensor> seeds;
  const Function wrong = [](Tape& tape, std::span<const Var> v) {
    Tape inner(tape.context(), {.record = false});
    return std::vector<Var>{tape.record(kWrong, {v[0]}, square(inner, v[0].value()).value(), {})};
  };
  const Tensor got = tape_gradients(context, wrong, {x}, seeds)[0];
  const std::vector<Tensor> inputs{x};
  const double want = central_difference({context, wrong, inputs, seeds}, x.data<double>()[0], {});
  EXPECT_GT(std::abs(got.data<double>()[0] - want), 1e-3);
}

// In backward the join comes first and gives a and b one tensor; then `early` adds to a, and b must not see it.
TEST(Tape, SharedGradientsDoNotDisturbEachOther) {
  Context context = poisoned();
  expect_gradients(context,
                   [](Tape& tape, std::span<const Var> v) {
                     const Var b = square(tape, v[1]), a = square(tape, v[0]);
                     const Var early = square(tape, a);
                     return std::vector<Var>{join(tape, a, b), early};
                   },
                   {random(context, {4}, 1), random(context, {4}, 2)});
}

TEST(Tape, SavedTensorsAreFreedAsBackwardPasses) {
  Context context = poisoned();
  static const Allocator* allocator = nullptr;
  static std::vector<std::size_t> in_use;
  allocator = context.allocator().get();
  in_use.clear();
  static constexpr Op kWatch{"watch", [](Tape& tape, Node& node) {
                               in_use.push_back(allocator->use(Lifetime::step).now);
                               square_backward(tape, node);
                             }};
  Var x = Var::leaf(random(context, {1000}, 1));
  Tape tape(context);
  Var y = x;
  for (int layer = 0; layer < 8; ++layer) {
    const Tensor squared = Tensor::empty(context, y.shape(), DType::f64);
    squared.copy_from(y.value());
    y = tape.record(kWatch, {y}, squared, {y.value()});
  }
  EXPECT_GE(tape.saved_bytes(), 8u * 8000u);
  const Tensor seed = Tensor::zeros(context, {1000}, DType::f64);
  tape.backward(Var(Tensor::zeros(context, {1000}, DType::f64), y.slot()), seed);
  ASSERT_EQ(in_use.size(), 8u);
  y = Var();
  for (std::size_t i = 2; i < in_use.size(); ++i) EXPECT_LT(in_use[i], in_use[i - 1]);
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_EQ(tape.saved_bytes(), 0u);
}

TEST(Tape, LeavesAccumulateOverTapes) {
  Context context = poisoned();
  const Tensor value = random(context, {5}, 1);
  Var x = Var::leaf(value);
  for (int round = 1; round <= 3; ++round) {
    Tape tape(context);
    const Var y = square(tape, x);
    Tensor seed = Tensor::empty(context, {5}, DType::f64);
    seed.fill(1.0);
    tape.backward(y, seed);
    for (std::int64_t i = 0; i < 5; ++i)
      EXPECT_DOUBLE_EQ(x.grad().data<double>()[i], round * 2.0 * value.data<double>()[i]);
  }
  EXPECT_GT(context.allocator()->use(Lifetime::persistent).now, 0u);
}

TEST(Tape, GradientsOfNarrowLeavesAreWide) {
  Context context = poisoned();
  const auto slot = Var::leaf(Tensor::zeros(context, {3}, DType::bf16)).slot();
  Tape tape(context);
  const Tape::Target target = tape.target(slot);
  EXPECT_TRUE(target.fresh);
  EXPECT_EQ(target.grad.dtype(), DType::f32);
  EXPECT_FALSE(tape.target(slot).fresh);
}

TEST(Tape, ConstantsAndInferenceRecordNothing) {
  Context context = poisoned();
  Tape tape(context);
  EXPECT_FALSE(square(tape, Var(random(context, {2}, 1))).needs_grad());
  Tape inference(context, {.record = false});
  EXPECT_FALSE(square(inference, Var::leaf(random(context, {2}, 1))).needs_grad());
  EXPECT_EQ(tape.size() + inference.size(), 0u);
}

TEST(Tape, BranchesThatLeadNowhereAreSkipped) {
  Context context = poisoned();
  Var x = Var::leaf(random(context, {2}, 1)), unused = Var::leaf(random(context, {2}, 2));
  Tape tape(context);
  square(tape, unused);
  const Var y = square(tape, x);
  square(tape, y);
  tape.backward(y, random(context, {2}, 3));
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(unused.grad().defined());
}

TEST(Tape, SeveralOutputs) {
  Context context = poisoned();
  expect_gradients(context,
                   [](Tape& tape, std::span<const Var> v) {
                     return tape.record(kFork, v.first(1), {v[0].value(), v[0].value()}, {});
                   },
                   {random(context, {4}, 1)});
}

TEST(Tape, ErrorsSayWhatIsWrong) {
  Context context = poisoned();
  Tape tape(context);
  const Var x = Var::leaf(random(context, {2}, 1)), y = square(tape, x);
  EXPECT_ERROR(tape.backward(y), ErrorCode::shape, "needs a scalar", "", "");
  EXPECT_ERROR(tape.backward(Var(random(context, {}, 1))), ErrorCode::usage, "no parameter leads to", "", "");
  EXPECT_ERROR(Var(random(context, {2}, 1)).grad(), ErrorCode::usage, "constant", "", "");
  EXPECT_ERROR(tape.accumulate(x.slot(), random(context, {3}, 1)), ErrorCode::internal, "gradient of shape (3,)", "",
               "");
}

TEST(Tape, PrintsItsNodes) {
  Context context = poisoned();
  Tape tape(context);
  square(tape, Var::leaf(random(context, {2, 3}, 1)));
  EXPECT_EQ(tape.text(), "square (2, 3) saved (2, 3)\n");
}

}  // namespace
}  // namespace fovea::testing
