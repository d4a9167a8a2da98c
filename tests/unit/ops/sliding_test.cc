// Windows, pools, convolutions and patches against their definitions, and what they refuse.

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/ops.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/ops/ops_fixture.h"

namespace fovea::testing {
namespace {

class SlidingOps : public OpsTest {
 protected:
  SlidingOps() : OpsTest(110) {}
};

using List = std::vector<double>;

TEST_F(SlidingOps, WindowsByHand) {
  const Tensor x = values({1, 4, 1}, {1, 2, 3, 4});
  const auto at = [&](EdgePadding padding) {
    return list(unfold1d(tape_, x, {.size = 3, .stride = 2, .before = 2, .after = 1, .padding = padding}).value);
  };
  EXPECT_EQ(at(EdgePadding::zeros), (List{0, 0, 1, 1, 2, 3, 3, 4, 0}));
  EXPECT_EQ(at(EdgePadding::circular), (List{3, 4, 1, 1, 2, 3, 3, 4, 1}));
  EXPECT_EQ(at(EdgePadding::replicate), (List{1, 1, 1, 1, 2, 3, 3, 4, 4}));
  const Tensor two = values({1, 3, 2}, {1, 10, 2, 20, 3, 30});
  EXPECT_EQ(list(unfold1d(tape_, two, {.size = 2}).value), (List{1, 10, 2, 20, 2, 20, 3, 30}));
  // Patches of a series: the end is replicated by a stride, so P = (n - p) / s + 2.
  const SlidingRows patched =
      unfold1d(tape_, draw({2, 20, 3}), {.size = 8, .stride = 4, .after = 4, .padding = EdgePadding::replicate});
  EXPECT_EQ(patched.value.shape(), (Shape{2, (20 - 8) / 4 + 2, 24}));
  EXPECT_TRUE(patched.rows.empty());
}

TEST_F(SlidingOps, WindowsStayInTheirSequence) {
  const Tensor x = values({1, 6, 1}, {1, 2, 3, 4, 5, NAN});
  const Sliding w{.size = 2, .stride = 2, .after = 1, .padding = EdgePadding::circular};
  const SlidingRows packed = unfold1d(tape_, x, w, {{}, {0, 2, 2, 5}});
  EXPECT_EQ(list(packed.value), (List{1, 2, 3, 4, 5, 3}));
  EXPECT_EQ(packed.rows.cu_seqlens, (std::vector<std::int32_t>{0, 1, 1, 3}));
  const SlidingRows padded = unfold1d(tape_, x.reshape({2, 3, 1}), w, {{3, 0}, {}});
  EXPECT_EQ(list(padded.value), (List{1, 2, 3, 1, 0, 0, 0, 0}));
  EXPECT_EQ(padded.rows.lengths, (std::vector<std::int32_t>{2, 0}));
}

TEST_F(SlidingOps, MaxPoolByHand) {
  const Sliding halving{.size = 3, .stride = 2, .before = 1, .after = 1};
  const Var x = Var::leaf(values({1, 5, 2}, {-1, 5, -2, 5, -3, 7, -9, NAN, -4, 1}));
  const SlidingRows pooled = max_pool1d(tape_, x, halving);
  const List y = list(pooled.value);
  EXPECT_EQ(pooled.value.shape(), (Shape{1, 3, 2}));  // ceil(5 / 2)
  EXPECT_EQ((List{y[0], y[1], y[2], y[4]}), (List{-1, 5, -2, -4}));
  EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[5]));
  tape_.backward(pooled.value, values({1, 3, 2}, {1, 10, 2, 20, 4, 40}));
  EXPECT_EQ(x.grad().to_vector<double>(), (List{1, 10, 2, 0, 0, 0, 0, 60, 4, 0}));  // equals: the first
  for (std::int64_t n : {1, 2, 7, 8}) EXPECT_EQ(max_pool1d(tape_, draw({1, n, 1}), halving).value.dim(1), (n + 1) / 2);
}

TEST_F(SlidingOps, MaxPoolOfNothing) {
  const Sliding halving{.size = 3, .stride = 2, .before = 1, .after = 1};
  const Var x = Var::leaf(values({2, 2, 1}, {5, NAN, NAN, NAN}));
  const SlidingRows pooled = max_pool1d(tape_, x, halving, {{1, 0}, {}});
  EXPECT_EQ(list(pooled.value), (List{5, 0}));
  EXPECT_EQ(pooled.rows.lengths, (std::vector<std::int32_t>{1, 0}));
  tape_.backward(sum(tape_, pooled.value));
  EXPECT_EQ(x.grad().to_vector<double>(), (List{1, 0, 0, 0}));
  EXPECT_EQ(max_pool1d(tape_, draw({2, 0, 3}), halving).value.shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(max_pool1d(tape_, draw({2, 4, 0}), halving).value.shape(), (Shape{2, 2, 0}));
}

TEST_F(SlidingOps, TrendsByHand) {
  EXPECT_EQ(list(avg_pool1d(tape_, values({1, 4, 1}, {3, 6, 9, 0}), 3)), (List{4, 6, 5, 3}));
  EXPECT_EQ(list(avg_pool1d(tape_, values({1, 3, 1}, {4, 8, 16}), 4)), (List{8, 11, 14}));  // one before, two after
  EXPECT_EQ(list(avg_pool1d(tape_, values({1, 3, 1}, {3, 6, NAN}), 3, {{2}, {}})), (List{4, 5, 0}));
  const Tensor flat = Tensor::zeros(context_, {2, 40, 3}, DType::f64);
  flat.fill(0.7);
  for (double v : list(avg_pool1d(tape_, flat, 25))) EXPECT_NEAR(v, 0.7, 1e-15);
}

// y_i = sum over t and c of x_(i + t - 1) w, written out.
TEST_F(SlidingOps, ConvolutionsAreTheDefinition) {
  for (const EdgePadding padding : {EdgePadding::zeros, EdgePadding::circular, EdgePadding::replicate})
    for (const std::int64_t taps : {1, 2, 3, 5}) {
      const Tensor x = draw({2, 4, 3}), w = draw({taps, 3, 2}), bias = draw({2});
      const List in = x.to_vector<double>(), weights = w.to_vector<double>(), b = bias.to_vector<double>();
      const List y = list(conv1d(tape_, x, w, bias, {padding, {}}));
      for (std::int64_t i = 0; i < 16; ++i) {
        const std::int64_t item = i / 8, row = i / 2 % 4, out = i % 2;
        double want = b[static_cast<std::size_t>(out)];
        for (std::int64_t t = 0; t < taps; ++t) {
          std::int64_t at = row + t - (taps - 1) / 2;
          if (padding == EdgePadding::zeros && (at < 0 || at > 3)) continue;
          at = padding == EdgePadding::circular ? (at + 8) % 4 : std::clamp<std::int64_t>(at, 0, 3);
          for (std::int64_t c = 0; c < 3; ++c)
            want += in[static_cast<std::size_t>((item * 4 + at) * 3 + c)] *
                    weights[static_cast<std::size_t>((t * 3 + c) * 2 + out)];
        }
        EXPECT_NEAR(y[static_cast<std::size_t>(i)], want, 1e-12) << i << " of " << taps << " taps";
      }
    }
}

TEST_F(SlidingOps, PatchesByHand) {
  List pixels(16);
  for (std::size_t i = 0; i < 16; ++i) pixels[i] = static_cast<double>(i);
  EXPECT_EQ(list(patches(tape_, values({1, 4, 4, 1}, pixels), 2)),
            (List{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
  EXPECT_EQ(list(patches(tape_, values({1, 2, 4, 2}, pixels), 2)),
            (List{0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}));
}

TEST_F(SlidingOps, RowsOfSequences) {
  const Tensor x = values({1, 5, 1}, {1, 2, 3, 4, NAN});
  const Sequences packed{{}, {0, 3, 3, 4}};
  EXPECT_EQ(list(last_pool(tape_, x, packed)), (List{3, 0, 4}));
  EXPECT_EQ(list(first_pool(tape_, x, packed)), (List{1, 0, 4}));
  const Sequences two{{}, {0, 3, 4}};
  const std::int32_t at[] = {1, 0}, beyond[] = {1, 1}, before[] = {-1, 0};
  EXPECT_EQ(list(pool_at(tape_, x, two, at)), (List{2, 4}));
  EXPECT_ERROR(pool_at(tape_, x, two, beyond), ErrorCode::bad_input, "row 1 of a sequence of 1", "index[1]", "");
  EXPECT_ERROR(pool_at(tape_, x, two, before), ErrorCode::bad_input, "row -1", "index[0]", "");
  EXPECT_ERROR(pool_at(tape_, x, packed, at), ErrorCode::shape, "2 rows for 3", "index", "");
}

TEST_F(SlidingOps, Refusals) {
  const Var x = draw({2, 4, 3});
  EXPECT_ERROR(unfold1d(tape_, draw({2, 4}), {}), ErrorCode::shape, "(2, 4)", "", "(b, n, c)");
  EXPECT_ERROR(unfold1d(tape_, x, {.size = 0}), ErrorCode::usage, "0 is outside", "sliding.size", "");
  EXPECT_ERROR(unfold1d(tape_, x, {.stride = 0}), ErrorCode::usage, "0 is outside", "sliding.stride", "");
  EXPECT_ERROR(max_pool1d(tape_, x, {.before = -1}), ErrorCode::usage, "-1", "sliding.before", "");
  EXPECT_ERROR(max_pool1d(tape_, x, {.after = std::int64_t{1} << 62}), ErrorCode::usage, "", "sliding.after", "");
  EXPECT_ERROR(avg_pool1d(tape_, x, 0), ErrorCode::usage, "0", "sliding.size", "");
  EXPECT_ERROR(conv1d(tape_, x, draw({3, 4, 2}), {}), ErrorCode::shape, "(3, 4, 2)", "", "(k, c, out)");
  EXPECT_ERROR(conv1d(tape_, x, draw({0, 3, 2}), {}), ErrorCode::shape, "(0, 3, 2)", "", "");
  EXPECT_ERROR(patches(tape_, draw({1, 4, 6, 1}), 4), ErrorCode::shape, "4 pixels", "", "divisible");
  EXPECT_ERROR(patches(tape_, draw({1, 4, 6, 1}), 0), ErrorCode::shape, "0 pixels", "", "");
  EXPECT_EQ(unfold1d(tape_, draw({2, 2, 3}), {.size = 3}).value.shape(), (Shape{2, 0, 9}));
}

}  // namespace
}  // namespace fovea::testing
