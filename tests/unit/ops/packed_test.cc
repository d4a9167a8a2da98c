#include "gemm/packed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/isa.h"
#include "fovea/ops.h"
#include "support/draws.h"

namespace fovea::gemm {
namespace {

Tensor random_matrix(const Context& context, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Random draws(seed, 3);
  return testing::random(context, {rows, columns}, draws, DType::f32);
}

double at(const Tensor& t, std::int64_t i, std::int64_t j) {
  return static_cast<double>(t.data<float>()[i * t.stride(0) + j * t.stride(1)]);
}

// What a weight may be off after packing: bf16 keeps 8 bits, int8 rounds to 1/127 of the largest of its column.
double slack(const Tensor& w, std::int64_t k, std::int64_t j, Form form) {
  if (form == Form::f32) return 0.0;
  if (form == Form::bf16) return std::abs(at(w, k, j)) / 256.0;
  double largest = 0.0;
  for (std::int64_t i = 0; i < w.dim(0); ++i) largest = std::max(largest, std::abs(at(w, i, j)));
  return 0.5 * largest / 127.0;
}

struct Sizes {
  std::int64_t rows, in, out;
};

void check(const Context& context, const Sizes& sizes, Form form, bool transposed) {
  const Tensor x = random_matrix(context, sizes.rows, sizes.in, 1), bias = random_matrix(context, 1, sizes.out, 2);
  const Tensor w = transposed ? random_matrix(context, sizes.out, sizes.in, 3).transpose(0, 1)
                              : random_matrix(context, sizes.in, sizes.out, 3);
  const Tensor y = Tensor::empty(context, {sizes.rows, sizes.out});
  PackedWeight(context, w, form).multiply(context, x, bias.reshape({sizes.out}), y);
  for (std::int64_t r = 0; r < sizes.rows; ++r)
    for (std::int64_t j = 0; j < sizes.out; ++j) {
      double exact = at(bias, 0, j), allowed = 1e-5;
      for (std::int64_t k = 0; k < sizes.in; ++k) {
        exact += at(x, r, k) * at(w, k, j);
        allowed += std::abs(at(x, r, k)) * (slack(w, k, j, form) * 1.0001 + 1e-6);
      }
      ASSERT_NEAR(at(y, r, j), exact, allowed) << sizes.rows << " " << sizes.in << " " << sizes.out;
    }
}

TEST(PackedWeight, MultipliesOnEveryInstructionSet) {
  const Isa before = chosen_isa();
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    const Context context({.threads = 2, .memory = {.poison = true}});
    for (const Form form : {Form::f32, Form::bf16, Form::i8})
      for (const Sizes& sizes : {Sizes{1, 1, 1},
                                 {1, 7, 31},
                                 {2, 64, 32},
                                 {3, 33, 33},
                                 {8, 5, 100},
                                 {9, 12, 65},
                                 {16, 20, 70},
                                 {64, 6, 33},
                                 {131, 9, 40},
                                 {1, 300, 257}})
        for (const bool transposed : {false, true}) check(context, sizes, form, transposed);
  }
  force_isa(before);
}

TEST(PackedWeight, GivesARowTheSameBitsAlwaysAndEverywhere) {
  for (const Form form : {Form::f32, Form::bf16, Form::i8}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      const Context context({.threads = threads});
      const Tensor w = random_matrix(context, 70, 3000, 1), x = random_matrix(context, 16, 70, 2);
      const PackedWeight packed(context, w, form);
      const Tensor y = Tensor::empty(context, {16, 3000});
      packed.multiply(context, x, {}, y);
      if (first.empty()) first = y.to_vector<float>();
      EXPECT_EQ(y.to_vector<float>(), first);
      const Tensor alone = Tensor::empty(context, {1, 3000});
      packed.multiply(context, x.slice(0, 11, 12), {}, alone);
      EXPECT_EQ(alone.to_vector<float>(), y.slice(0, 11, 12).to_vector<float>());
    }
  }
}

TEST(PackedWeight, KeepsZerosAndShowsWhatIsNotANumber) {
  const Context context({.threads = 1});
  const Tensor w = Tensor::zeros(context, {3, 40}), x = random_matrix(context, 1, 3, 1);
  w.data<float>()[7] = NAN;
  const Tensor y = Tensor::empty(context, {1, 40});
  for (const Form form : {Form::f32, Form::bf16, Form::i8}) {
    PackedWeight(context, w, form).multiply(context, x, {}, y);
    for (int j = 0; j < 40; ++j)
      if (j == 7)
        EXPECT_TRUE(std::isnan(y.data<float>()[j]));
      else
        EXPECT_EQ(y.data<float>()[j], 0.0f);
  }
}

TEST(PackedWeights, ServeTheProductsOfTheirParameters) {
  Context context({.threads = 2});
  const Tensor w = random_matrix(context, 24, 48, 1), other = random_matrix(context, 24, 48, 1);
  const Tensor x = random_matrix(context, 4, 24, 2), wide = random_matrix(context, 4, 48, 4);
  const PackedWeights weights(Form::i8, {w, Tensor::zeros(context, {48})});
  EXPECT_EQ(weights.find(context, other), nullptr);
  EXPECT_EQ(weights.find(context, w.slice(0, 0, 12)), nullptr);
  const PackedWeight* packed = weights.find(context, w);
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(weights.find(context, w), packed);
  ASSERT_NE(weights.find(context, w.transpose(0, 1)), nullptr);
  EXPECT_EQ(weights.find(context, w.transpose(0, 1))->out(), 24);
  EXPECT_GT(weights.bytes(), 2u * 24 * 48 - 1);

  Tape plain(context, {.record = false}), packing(context, {.record = false, .packed = &weights}),
      recording(context, {.packed = &weights});
  const auto product = [](Tape& on, const Tensor& from, const Tensor& weight) {
    return linear(on, from, weight, {}, Activation::relu).value().to_vector<float>();
  };
  const auto exact = product(plain, x, w), rounded = product(packing, x, w);
  EXPECT_NE(exact, rounded);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(exact[i], rounded[i], 0.3);
  EXPECT_EQ(product(recording, x, w), exact);
  EXPECT_EQ(product(packing, x, other), product(plain, x, other));
  const Tensor many = random_matrix(context, 200, 24, 5);
  const auto all = product(packing, many, w), some = product(packing, many.slice(0, 130, 134), w);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 130 * 48)) << "in any company";
  EXPECT_NE(product(packing, wide, w.transpose(0, 1)), product(plain, wide, w.transpose(0, 1)));
}

}  // namespace
}  // namespace fovea::gemm
