#include "ops/inverse.h"

#include <gtest/gtest.h>

#include "fovea/ops.h"
#include "gemm/gemm.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"

namespace fovea::testing {
namespace {

class Inverse : public ::testing::Test {
 protected:
  // Rows that sum to 1, far from singular.
  Tensor stochastic(Tape& tape, const Shape& shape, DType dtype = DType::f64) {
    return softmax(tape, Var(random(context_, shape, 7, dtype, 3.0))).value();
  }
  // max |a x - I|
  double distance_from_one(const Tensor& a, const Tensor& x) {
    const std::vector<double> product = gemm::multiply(context_, a, x).to_vector<double>();
    const std::size_t p = static_cast<std::size_t>(a.dim(-1));
    double worst = 0.0;
    for (std::size_t i = 0; i < product.size(); ++i)
      worst = std::max(worst, std::abs(product[i] - (i / p % p == i % p ? 1.0 : 0.0)));
    return worst;
  }

  Context context_ = poisoned();
};

TEST_F(Inverse, ConvergesToTheInverse) {
  Tape tape(context_, {.record = false});
  const Tensor a = stochastic(tape, {2, 3, 5, 5});
  double last = 1e9;
  for (const std::int64_t steps : {2, 6, 12, 24}) {
    const double distance = distance_from_one(a, iterative_inverse(tape, a, {.steps = steps}).value());
    EXPECT_LE(distance, last + 1e-12) << steps;
    last = distance;
  }
  EXPECT_LT(last, 1e-8);
}

TEST_F(Inverse, RegularizedInvertsTheShiftedMatrix) {
  Tape tape(context_, {.record = false});
  const Tensor m = random(context_, {2, 4, 4}, 3, DType::f64), gram = gemm::multiply(context_, m, m.transpose(1, 2));
  for (std::int64_t i = 0; i < gram.numel(); ++i) gram.data<double>()[i] = std::abs(gram.data<double>()[i]) + 0.01;
  const Tensor shifted = gram.clone(context_);
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t b = 0; b < 2; ++b) {
      gram.data<double>()[(b * 4 + i) * 4 + i] += 8.0;  // positive definite
      shifted.data<double>()[(b * 4 + i) * 4 + i] += 8.3;
    }
  EXPECT_LT(
      distance_from_one(shifted, regularized_inverse(tape, gram, {.shift = 0.3, .iterated = {.steps = 30}}).value()),
      1e-10);
}

TEST_F(Inverse, AMatrixOfNaNLeavesTheGradientsOfOthersAlone) {
  Tape quiet(context_, {.record = false});
  const Tensor a = stochastic(quiet, {2, 4, 4});
  const auto first_gradient = [&] {
    Tape tape(context_);
    const Var x = Var::leaf(a);
    const Var y = iterative_inverse(tape, x, {.steps = 4});
    tape.backward(y, random(context_, {2, 4, 4}, 5, DType::f64));
    return x.grad().slice(0, 0, 1).to_vector<double>();
  };
  const std::vector<double> wanted = first_gradient();
  a.slice(0, 1, 2).fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(first_gradient(), wanted);
}

TEST_F(Inverse, GradientsMatchFiniteDifferences) {
  const Function iterative = [](Tape& tape, std::span<const Var> v) {
    return std::vector<Var>{iterative_inverse(tape, softmax(tape, v[0]), {.steps = 4})};
  };
  const Function together = [](Tape& tape, std::span<const Var> v) {
    return std::vector<Var>{iterative_inverse(tape, softmax(tape, v[0]), {.steps = 2, .one_start = true})};
  };
  const Function regularized = [](Tape& tape, std::span<const Var> v) {
    return std::vector<Var>{regularized_inverse(tape, softmax(tape, v[0]), {.shift = 0.3, .iterated = {.steps = 3}})};
  };
  expect_gradients(context_, iterative, {random(context_, {2, 2, 3, 3}, 5, DType::f64)});
  expect_gradients(context_, together, {random(context_, {2, 2, 3, 3}, 5, DType::f64)});
  expect_gradients(context_, regularized, {random(context_, {3, 4, 4}, 5, DType::f64)});
}

TEST_F(Inverse, OneStartIsThatOfTheMatrixWithTheLargestColumnSum) {
  Tape tape(context_, {.record = false});
  const Tensor a = stochastic(tape, {3, 5, 5});
  const Tensor own = iterative_inverse(tape, a, {.steps = 1}).value();
  const Tensor together = iterative_inverse(tape, a, {.steps = 1, .one_start = true}).value();
  int same = 0;
  for (std::int64_t m = 0; m < 3; ++m) same += relative_error(own.select(0, m), together.select(0, m)) < 1e-12 ? 1 : 0;
  EXPECT_EQ(same, 1);
}

TEST_F(Inverse, FloatIsNearDouble) {
  Tape tape(context_, {.record = false});
  const Tensor a = stochastic(tape, {2, 33, 33}, DType::f32), exact = a.to(context_, DType::f64);
  EXPECT_LT(relative_error(iterative_inverse(tape, a, {}).value(), iterative_inverse(tape, exact, {}).value()), 1e-4);
}

TEST_F(Inverse, RefusesWhatIsNotSquare) {
  Tape tape(context_, {.record = false});
  EXPECT_ERROR(iterative_inverse(tape, random(context_, {2, 3, 4}, 1), {}), ErrorCode::shape, "(2, 3, 4)", "",
               "square");
  EXPECT_ERROR(iterative_inverse(tape, random(context_, {2, 3, 3}, 1, DType::bf16), {}), ErrorCode::shape, "bf16", "",
               "f32");
}

}  // namespace
}  // namespace fovea::testing
