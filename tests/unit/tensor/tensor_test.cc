#include "fovea/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/expect_error.h"
#include "support/tensors.h"

namespace fovea::testing {
namespace {

Tensor counting(const Context& context, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from<double>(context, shape, values);
}

TEST(Tensor, UndefinedEmptyAndScalar) {
  const Context context = poisoned();
  EXPECT_FALSE(Tensor().defined());
  const Tensor empty = Tensor::empty(context, {3, 0});
  EXPECT_TRUE(empty.defined());
  EXPECT_TRUE(empty.to_vector<float>().empty());
  empty.fill(1.0);
  const Tensor scalar = Tensor::empty(context, {});
  scalar.fill(2.5);
  EXPECT_EQ(scalar.item(), 2.5);
  EXPECT_ERROR(empty.item(), ErrorCode::shape, "item()", "", "");
}

TEST(Tensor, DataChecksItsType) {
  const Context context = poisoned();
  EXPECT_ERROR(Tensor::zeros(context, {2}).data<double>(), ErrorCode::usage, "holds f32, not f64", "", "");
}

TEST(Tensor, FromChecksItsCount) {
  const Context context = poisoned();
  const std::vector<float> values(5);
  EXPECT_ERROR((Tensor::from<float>(context, {2, 3}, values)), ErrorCode::shape, "5 values", "", "");
}

TEST(Tensor, ViewsShareAndIndexRight) {
  const Context context = poisoned();
  const Tensor t = counting(context, {2, 3, 4});
  const Tensor v = t.transpose(0, 2).slice(0, 1, 3).select(1, 2);  // (4, 3, 2) -> (2, 3, 2) -> (2, 2)
  EXPECT_EQ(v.shape(), (Shape{2, 2}));
  EXPECT_EQ(v.to_vector<double>(), (std::vector<double>{9, 21, 10, 22}));
  EXPECT_TRUE(t.is_shared());
  EXPECT_FALSE(v.is_contiguous());
  v.fill(-1.0);
  EXPECT_EQ(t.to_vector<double>()[9], -1.0);
  EXPECT_EQ(t.to_vector<double>()[8], 8.0);
}

TEST(Tensor, SizeOneAxesDoNotMatterToContiguity) {
  const Context context = poisoned();
  EXPECT_TRUE(counting(context, {5, 1, 4}).transpose(0, 1).is_contiguous());
  EXPECT_TRUE(counting(context, {1, 4}).transpose(0, 1).is_contiguous());
}

TEST(Tensor, Reshape) {
  const Context context = poisoned();
  const Tensor t = counting(context, {2, 6});
  EXPECT_EQ(t.reshape({-1, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(t.reshape({12, 1, -1}).shape(), (Shape{12, 1, 1}));
  EXPECT_EQ(Tensor::empty(context, {0, 4}).reshape({-1, 2}).shape(), (Shape{0, 2}));
  EXPECT_ERROR(t.reshape({5, -1}), ErrorCode::shape, "cannot reshape (2, 6)", "", "");
  EXPECT_ERROR(t.reshape({-1, -1}), ErrorCode::shape, "negative", "", "");
  EXPECT_ERROR(t.reshape({1, 1, 1, 1, 1, 1, 12}), ErrorCode::shape, "at most 6 axes", "", "");
  EXPECT_ERROR(t.reshape({std::int64_t{1} << 40, std::int64_t{1} << 40, -1}), ErrorCode::shape, "overflow", "", "");
  EXPECT_ERROR(t.transpose(0, 1).reshape({12}), ErrorCode::shape, "strided view", "", "");
}

TEST(Tensor, RefusesWrongAxesAndSlices) {
  const Context context = poisoned();
  const Tensor t = counting(context, {2, 3});
  EXPECT_ERROR(t.transpose(0, 2), ErrorCode::shape, "axis 2", "", "");
  EXPECT_ERROR(t.slice(-3, 0, 1), ErrorCode::shape, "axis -3", "", "");
  EXPECT_ERROR(t.slice(1, 2, 4), ErrorCode::shape, "slice [2, 4)", "", "");
  EXPECT_ERROR(t.slice(1, 2, 1), ErrorCode::shape, "slice [2, 1)", "", "");
  EXPECT_ERROR(t.select(0, 2), ErrorCode::shape, "slice [2, 3)", "", "");
}

TEST(Tensor, AnImpossibleSizeIsAnError) {
  const Context context = poisoned();
  EXPECT_ERROR(Tensor::empty(context, {std::int64_t{1} << 62}, DType::f64), ErrorCode::out_of_memory, "", "", "");
}

TEST(Tensor, OutlivesItsContext) {
  Tensor t;
  {
    const Context context = poisoned();
    t = Tensor::zeros(context, {1000});
  }
  t.fill(3.0);
  EXPECT_EQ(t.to_vector<float>()[999], 3.0f);
}

// Every pair of dtypes, dense and strided.
TEST(Copy, ConvertsBetweenAllTypes) {
  const Context context = poisoned();
  const std::vector<double> values{0, 1, 2, 3, 100, 17};
  const Tensor source = Tensor::from<double>(context, {2, 3}, values);
  constexpr DType kAll[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8};
  for (DType from : kAll)
    for (DType to : kAll) {
      const Tensor middle = source.to(context, from), end = middle.to(context, to);
      EXPECT_EQ(end.dtype(), to);
      EXPECT_EQ(end.to_vector<double>(), values);
      const Tensor turned = Tensor::empty(context, {3, 2}, to);
      turned.transpose(0, 1).copy_from(middle);
      EXPECT_EQ(turned.transpose(0, 1).to_vector<double>(), values);
    }
}

TEST(Copy, RefusesAnotherShape) {
  const Context context = poisoned();
  EXPECT_ERROR(Tensor::zeros(context, {2, 3}).copy_from(Tensor::zeros(context, {3, 2})), ErrorCode::shape,
               "(3, 2) into (2, 3)", "", "");
}

// Permuted views large enough for tiles and threads, against an element-by-element copy.
TEST(Copy, EveryOrderOfAxes) {
  const Context context = poisoned();
  const Tensor source = counting(context, {3, 37, 5, 67});
  const int swaps[][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  for (const auto& first : swaps)
    for (const auto& second : swaps) {
      const Tensor view = source.transpose(first[0], first[1]).transpose(second[0], second[1]).slice(1, 1, 3);
      const Tensor copy = view.contiguous(context);
      ASSERT_EQ(copy.shape(), view.shape());
      const double* got = copy.data<double>();
      for (std::int64_t a = 0; a < view.dim(0); ++a)
        for (std::int64_t b = 0; b < view.dim(1); ++b)
          for (std::int64_t c = 0; c < view.dim(2); ++c)
            for (std::int64_t d = 0; d < view.dim(3); ++d)
              ASSERT_EQ(*got++, view.data<double>()[a * view.stride(0) + b * view.stride(1) + c * view.stride(2) +
                                                    d * view.stride(3)]);
    }
}

// Rows that no two axes merge into, enough of them for a task to begin in the middle of an axis.
TEST(Copy, RowsOfSeveralTasks) {
  const Context context = poisoned();
  const Tensor view = counting(context, {41, 31, 24}).slice(1, 1, 30).slice(2, 1, 24);
  const auto got = view.to_vector<float>();
  std::size_t at = 0;
  for (int a = 0; a < 41; ++a)
    for (int b = 1; b < 30; ++b)
      for (int c = 1; c < 24; ++c) ASSERT_EQ(got[at++], static_cast<float>((a * 31 + b) * 24 + c));
}

TEST(Copy, IntoAStridedViewLeavesTheRestAlone) {
  const Context context = poisoned();
  const Tensor t = Tensor::zeros(context, {300, 130}, DType::f32);
  t.slice(1, 7, 71).copy_from(random(context, {300, 64}, 1, DType::bf16));
  const auto values = t.to_vector<float>();
  for (std::size_t row = 0; row < 300; ++row)
    for (std::size_t column = 0; column < 130; ++column)
      ASSERT_EQ(values[row * 130 + column] != 0.0f, column >= 7 && column < 71);
}

TEST(Copy, LargeDenseTensors) {
  const Context context = poisoned();
  const Tensor source = random(context, {3, 70001}, 2, DType::f32), copy = source.clone(context, Lifetime::persistent);
  EXPECT_TRUE(same_bits(source, copy));
  EXPECT_GT(context.allocator()->use(Lifetime::persistent).now, 0u);
  const Tensor zeros = Tensor::zeros(context, {210003}, DType::bf16);
  for (float v : zeros.to_vector<float>()) ASSERT_EQ(v, 0.0f);
}

TEST(Tensor, WrapsForeignMemory) {
  std::vector<std::int32_t> memory{1, 2, 3, 4};
  const Tensor t = Tensor::wrap(memory.data(), {2, 2}, DType::i32);
  t.select(0, 1).fill(9);
  EXPECT_EQ(memory, (std::vector<std::int32_t>{1, 2, 9, 9}));
}

TEST(Tensor, WrapsForeignMemoryWithStrides) {
  std::vector<std::int32_t> memory{1, 2, 3, 4, 5, 6};
  const std::int64_t down_and_back[] = {3, -1}, again[] = {0, 2};
  const Tensor mirrored = Tensor::wrap(memory.data() + 2, {2, 3}, down_and_back, DType::i32);
  EXPECT_EQ(mirrored.to_vector<std::int32_t>(), (std::vector<std::int32_t>{3, 2, 1, 6, 5, 4}));
  const Tensor repeated = Tensor::wrap(memory.data(), {2, 3}, again, DType::i32);
  EXPECT_EQ(repeated.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 3, 5, 1, 3, 5}));
  EXPECT_ERROR(Tensor::wrap(memory.data(), {6}, again, DType::i32), ErrorCode::shape, "2 strides", "", "");
}

}  // namespace
}  // namespace fovea::testing
