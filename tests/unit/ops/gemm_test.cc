#include "gemm/gemm.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/names.h"
#include "support/tensors.h"

namespace fovea::testing {
namespace {

using gemm::multiply;

// The definition, in double.
Tensor plain(const Context& context, const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(context, DType::f64).contiguous(context), y = b.to(context, DType::f64).contiguous(context);
  const std::int64_t m = a.dim(-2), k = a.dim(-1), n = b.dim(-1), batch = x.numel() / std::max<std::int64_t>(1, m * k);
  const Tensor c = Tensor::zeros(context, a.shape().with(-1, n), DType::f64);
  for (std::int64_t p = 0; p < batch; ++p)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t q = 0; q < k; ++q)
          c.data<double>()[(p * m + i) * n + j] +=
              x.data<double>()[(p * m + i) * k + q] * y.data<double>()[(b.rank() == 2 ? 0 : p * k * n) + q * n + j];
  return c;
}

class GemmTest : public ::testing::TestWithParam<DType> {
 protected:
  Context context_ = poisoned();
  double tolerance() const { return 4 * epsilon(GetParam()); }
  Tensor draw(const Shape& shape, std::uint64_t seed) const { return random(context_, shape, seed, GetParam()); }
};

TEST_P(GemmTest, PlainAndTransposed) {
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {1, 7, 5},
                                {3, 1, 4},
                                {5, 9, 1},
                                {33, 65, 17},
                                {130, 64, 70},
                                {66, 140, 20}})
    for (int turned = 0; turned < 4; ++turned) {
      const Tensor a = turned & 1 ? draw({k, m}, 1).transpose(0, 1) : draw({m, k}, 1);
      const Tensor b = turned & 2 ? draw({n, k}, 2).transpose(0, 1) : draw({k, n}, 2);
      EXPECT_LT(relative_error(multiply(context_, a, b), plain(context_, a, b)), tolerance())
          << m << " " << k << " " << n << " " << turned;
    }
}

TEST_P(GemmTest, RowsOfAWiderMatrix) {
  const Tensor a = draw({40, 100}, 1).slice(1, 3, 60), b = draw({57, 30}, 2);
  EXPECT_LT(relative_error(multiply(context_, a, b), plain(context_, a, b)), tolerance());
}

TEST_P(GemmTest, BatchesAndHeads) {
  const Tensor a = draw({2, 9, 3, 5}, 1).transpose(1, 2), b = draw({2, 7, 3, 5}, 2).transpose(1, 2).transpose(2, 3);
  EXPECT_LT(relative_error(multiply(context_, a, b), plain(context_, a, b)), tolerance());
  const Tensor shared = draw({5, 4}, 3);
  EXPECT_LT(relative_error(multiply(context_, a, shared), plain(context_, a, shared)), tolerance());
}

TEST_P(GemmTest, BiasReluAndAccumulation) {
  const DType wide = GetParam() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor a = draw({33, 20}, 1), b = draw({20, 18}, 2), bias = random(context_, {18}, 3, wide);
  Tensor want = plain(context_, a, b);
  for (std::int64_t i = 0; i < want.numel(); ++i)
    want.data<double>()[i] =
        std::max(0.0, want.data<double>()[i] + bias.to_vector<double>()[static_cast<std::size_t>(i % 18)]);
  EXPECT_LT(relative_error(multiply(context_, a, b, {.bias = bias, .relu = true}), want), tolerance());

  const Tensor x = draw({200, 33}, 4), dy = draw({200, 18}, 5), dw = Tensor::zeros(context_, {33, 18}, wide);
  for (int round = 0; round < 2; ++round)
    multiply(context_, x.transpose(0, 1), dy, dw, {.bias = {}, .relu = false, .accumulate = true});
  want = plain(context_, x.transpose(0, 1), dy);
  for (std::int64_t i = 0; i < want.numel(); ++i) want.data<double>()[i] *= 2;
  EXPECT_LT(relative_error(dw, want), 1e-5);
}

TEST_P(GemmTest, NothingToMultiply) {
  EXPECT_EQ(multiply(context_, draw({0, 4}, 1), draw({4, 3}, 2)).shape(), (Shape{0, 3}));
  EXPECT_EQ(multiply(context_, draw({2, 4}, 1), draw({4, 0}, 2)).shape(), (Shape{2, 0}));
  const Tensor zero = multiply(context_, draw({2, 0}, 1), draw({0, 3}, 2));
  EXPECT_EQ(zero.to_vector<double>(), std::vector<double>(6, 0.0));
  const DType wide = GetParam() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor bias = Tensor::from<double>(context_, {2}, std::vector<double>{1.0, -2.0}).to(context_, wide);
  const Tensor only_bias = multiply(context_, draw({2, 0}, 1), draw({0, 2}, 2), {.bias = bias, .relu = true});
  EXPECT_EQ(only_bias.to_vector<double>(), (std::vector<double>{1, 0, 1, 0}));
  const Tensor kept = Tensor::zeros(context_, {2, 3}, wide);
  kept.fill(7.0);
  multiply(context_, draw({2, 0}, 1), draw({0, 3}, 2), kept, {.bias = {}, .relu = false, .accumulate = true});
  EXPECT_EQ(kept.to_vector<double>(), std::vector<double>(6, 7.0));
}

TEST_P(GemmTest, WrongShapesAreRefused) {
  EXPECT_ERROR(multiply(context_, draw({2, 3}, 1), draw({4, 3}, 2)), ErrorCode::shape, "(2, 3) by (4, 3)", "",
               "(k, n)");
  EXPECT_ERROR(multiply(context_, draw({2, 2, 3}, 1), draw({3, 3, 4}, 2)), ErrorCode::shape, "cannot multiply", "", "");
  EXPECT_ERROR(multiply(context_, draw({3}, 1), draw({3, 4}, 2)), ErrorCode::shape, "cannot multiply", "", "");
  EXPECT_ERROR(multiply(context_, draw({2, 3}, 1), draw({3, 4}, 2), {.bias = draw({3}, 3)}), ErrorCode::shape, "bias",
               "", "");
}

INSTANTIATE_TEST_SUITE_P(Gemm, GemmTest, ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         kNamedAsPrinted);

TEST(Gemm, WeightsFollowTheActivations) {
  const Context context = poisoned();
  const Tensor x = random(context, {70, 40}, 1, DType::bf16), w = random(context, {40, 30}, 2, DType::f32);
  const Tensor y = multiply(context, x, w);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_LT(relative_error(y, plain(context, x, w)), 4 * epsilon(DType::bf16));
}

// More shapes than are kept, each used again after the others have pushed it out.
TEST(Gemm, ForgetsOldShapesHarmlessly) {
  const Context context = poisoned(1);
  const Tensor a = random(context, {530, 3}, 1, DType::f32), b = random(context, {3, 2}, 2, DType::f32);
  const Tensor want = plain(context, a, b);
  for (int round = 0; round < 2; ++round)
    for (std::int64_t m = 1; m <= 530; ++m)
      ASSERT_LT(relative_error(multiply(context, a.slice(0, 0, m), b), want.slice(0, 0, m)), 1e-6) << m;
}

}  // namespace
}  // namespace fovea::testing
