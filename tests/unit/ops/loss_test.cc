// The losses between numbers, lengths and temperatures by hand, and what they refuse.

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/ops.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/ops/ops_fixture.h"

namespace fovea::testing {
namespace {

class Losses : public OpsTest {
 protected:
  Losses() : OpsTest(80) {}
};

TEST_F(Losses, MeanDistancesByHand) {
  const Var x = Var::leaf(values({2, 2}, {1, 2, 3, 4})), target = Var::leaf(values({2, 2}, {1, 4, 2, 0}));
  const Var squared = mse(tape_, x, target);
  EXPECT_DOUBLE_EQ(squared.value().item(), (4.0 + 1.0 + 16.0) / 4);
  tape_.backward(squared);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, -1, 0.5, 2}));
  EXPECT_EQ(target.grad().to_vector<double>(), (std::vector<double>{0, 1, -0.5, -2}));
  const Var y = Var::leaf(values({4}, {1, 2, 3, 4}));
  const Var absolute = mae(tape_, y, values({4}, {1, 4, 2, 0}));
  EXPECT_DOUBLE_EQ(absolute.value().item(), 7.0 / 4);
  tape_.backward(absolute);
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{0, -0.25, 0.25, 0.25}));
}

// The mean over half a million equal terms is that term: sums do not lose it.
TEST_F(Losses, LongMeansAreExactEnough) {
  const Tensor x = Tensor::zeros(context_, {600000}, DType::f32), target = Tensor::empty(context_, {600000});
  target.fill(0.1);
  EXPECT_NEAR(mse(tape_, x, target).value().item(), 0.01, 1e-8);
  EXPECT_NEAR(mae(tape_, x, target).value().item(), 0.1, 1e-7);
}

TEST_F(Losses, RefusesWhatCannotBeCompared) {
  EXPECT_ERROR(mse(tape_, draw({2, 3}), draw({3, 2})), ErrorCode::shape, "mse of f64(2, 3) and a target of f64(3, 2)",
               "target", "same shape");
  EXPECT_ERROR(mae(tape_, draw({2}), draw({2}, DType::f32)), ErrorCode::shape, "f32(2,)", "target", "");
  EXPECT_ERROR(mae(tape_, draw({0, 3}), draw({0, 3})), ErrorCode::shape, "nothing", "", "");
  EXPECT_TRUE(std::isnan(mae(tape_, values({2}, {NAN, 1}), values({2}, {0, 1})).value().item()));
}

// Three blocks of rows against logits that are there as a whole.
TEST_F(Losses, OfALinearLayerIsThatOfItsLogits) {
  const std::int64_t rows = 1100, classes = 9001;
  std::vector<std::int32_t> wanted;
  for (std::int32_t i = 0; i < rows; ++i) wanted.push_back(i % 5 == 0 ? -1 : i * 7);
  const Tensor targets = integers(context_, {rows}, wanted);
  const CrossEntropy options{.label_smoothing = 0.1};
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor values[] = {draw({rows, 3}, dtype), draw({3, classes}, dtype), draw({classes}, dtype)};
    const double tolerance = 64 * epsilon(dtype);
    std::vector<Var> blocked, whole;
    for (const Tensor& v : values) blocked.push_back(Var::leaf(v)), whole.push_back(Var::leaf(v));
    const ClassLoss got = linear_class_loss(tape_, blocked[0], blocked[1], blocked[2], targets, options),
                    want = class_loss(tape_, linear(tape_, whole[0], whole[1], whole[2]), targets, options);
    EXPECT_LT(relative_error(got.value.value(), want.value.value()), tolerance);
    EXPECT_EQ(got.asked.item(), want.asked.item());
    EXPECT_EQ(got.correct.item(), want.correct.item());
    tape_.backward(scale(tape_, add(tape_, got.value, want.value), 3.0));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_LT(relative_error(blocked[i].grad(), whole[i].grad()), tolerance) << name_of(dtype) << " " << i;
  }
}

TEST_F(Losses, OfALinearLayerNeverHoldsAllLogits) {
  const std::int64_t rows = 8192, classes = 8192;
  const Tensor x = Tensor::zeros(context_, {rows, 4}), targets = Tensor::zeros(context_, {rows}, DType::i32);
  const Var weight = Var::leaf(Tensor::zeros(context_, {4, classes}));
  context_.allocator()->reset_peaks();
  const std::size_t before = context_.allocator()->total().now;
  tape_.backward(linear_class_loss(tape_, x, weight, {}, targets).value);
  EXPECT_LT(context_.allocator()->total().peak - before,
            static_cast<std::size_t>(rows * classes));  // a quarter of them
}

// Next to 3e38 the log of the sum is less than half a unit in the last place: loss 0, and gradients of 1, once.
TEST_F(Losses, LargeLogitsKeepTheirSum) {
  const Var logits = Var::leaf(Tensor::empty(context_, {1, 16}));
  logits.value().fill(3e38);
  const Var loss = cross_entropy(tape_, logits, integers(context_, {1}, {3}));
  EXPECT_NEAR(loss.value().item(), std::log(16.0), 1e-6);
  tape_.backward(loss);
  const std::vector<float> found = logits.grad().to_vector<float>();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], i == 3 ? -0.9375 : 0.0625, 1e-6) << i;
}

TEST_F(Losses, CountsWhatIsRight) {
  const Tensor logits = values({4, 3}, {1, 2, 0, 4, 4, 4, 4, 4, 4, 0, 0, 9});
  const ClassLoss loss = class_loss(tape_, logits, integers(context_, {4}, {1, 0, 1, -1}));
  EXPECT_EQ(loss.asked.item(), 3);
  EXPECT_EQ(loss.correct.item(), 2);  // of equals the first
  const ClassLoss none =
      linear_class_loss(tape_, draw({0, 2}), Var::leaf(draw({2, 3})), {}, Tensor::empty(context_, {0}, DType::i32));
  EXPECT_EQ(none.value.value().item(), 0.0);
  EXPECT_EQ(none.asked.item() + none.correct.item(), 0);
  tape_.backward(none.value);
}

TEST_F(Losses, RowsOfLengthOne) {
  const Var x = Var::leaf(values({3, 2}, {3, 4, 0, 0, 1e-20, 0}));
  const Var y = l2_normalize(tape_, x);
  const std::vector<double> got = y.value().to_vector<double>(), want{0.6, 0.8, 0, 0, 1e-8, 0};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-15) << i;
  tape_.backward(y, values({3, 2}, {1, 0, 1, 1, 1, 1}));
  const std::vector<double> dx = x.grad().to_vector<double>();
  EXPECT_NEAR(dx[0], (1 - 0.36) / 5, 1e-15);
  EXPECT_NEAR(dx[0] * 3 + dx[1] * 4, 0.0, 1e-15);  // a longer row has the same direction
  EXPECT_NEAR(dx[2], 1e12, 1e-3);
  EXPECT_ERROR(l2_normalize(tape_, x, 0.0), ErrorCode::usage, "direction", "norm.eps", "1e-12");
}

TEST_F(Losses, TemperaturesAreLimitedAndComeBack) {
  const Tensor x = values({2}, {1, 2});
  const Var t = Var::leaf(values({}, {std::log(1000.0)}));
  EXPECT_EQ(exp_scale(tape_, x, t).value().to_vector<double>(), (std::vector<double>{100, 200}));
  EXPECT_NEAR(exp_scale(tape_, x, t, 1e9).value().to_vector<double>()[1], 2000.0, 1e-9);
  for (const double sign : {1.0, -1.0}) {
    Tape tape(context_);
    const Var far = Var::leaf(t.value());
    tape.backward(exp_scale(tape, x, far), values({2}, {sign, sign}));
    EXPECT_DOUBLE_EQ(far.grad().item(), sign > 0 ? 300.0 : 0.0);
  }
  EXPECT_ERROR(exp_scale(tape_, x, x), ErrorCode::shape, "(2,)", "log_factor", "one number");
}

TEST_F(Losses, OneNumberMeetsEveryShape) {
  EXPECT_EQ(mul(tape_, values({2, 2}, {1, 2, 3, 4}), values({1}, {3})).value().to_vector<double>(),
            (std::vector<double>{3, 6, 9, 12}));
  EXPECT_EQ(sub(tape_, values({}, {1}), values({1, 1}, {3})).value().to_vector<double>(), std::vector<double>{-2});
  EXPECT_ERROR(sub(tape_, draw({2, 3}), draw({2})), ErrorCode::shape, "sub of f64(2, 3) and f64(2,)", "", "one number");
}

}  // namespace
}  // namespace fovea::testing
