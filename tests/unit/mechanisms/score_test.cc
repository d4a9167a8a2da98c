#include <gtest/gtest.h>

#include <cmath>

#include "unit/mechanisms/mechanism_calls.h"

// Scores and positions by their own properties; their definitions are tested by conformance.
namespace fovea {
namespace {

class Score : public MechanismCalls, public ::testing::Test {
 protected:
  static void scale_in_place(const Var& x, double factor) {
    for (std::int64_t i = 0; i < x.value().numel(); ++i) x.value().data<double>()[i] *= factor;
  }

  static constexpr std::int64_t kN = 21, kHeads = 2, kWidth = 8;
};

TEST_F(Score, DotIsScaledDotWithoutItsScale) {
  AttentionOptions unscaled;
  unscaled.scale = 1.0;
  expect_near(run("softmax:score=dot"), run("softmax", unscaled), 1e-14);
}

TEST_F(Score, BilinearWithAScaledIdentityIsScaledDot) {
  AttentionOptions options;
  options.weights = {filled({kHeads, kWidth, kWidth}, 0.0)};
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t c = 0; c < kWidth; ++c)
      options.weights[0].value().data<double>()[(h * kWidth + c) * kWidth + c] = 1.0 / std::sqrt(8.0);
  for (const char* mechanism : {"softmax", "sparsemax", "rela", "sigmoid"})
    expect_near(run(std::string(mechanism) + ":score=bilinear", options), run(mechanism), 1e-12);
}

TEST_F(Score, CosineIgnoresLengths) {
  AttentionOptions options;
  options.weights = {filled({kHeads}, 2.0)};
  const std::vector<double> before = run("softmax:score=cosine", options);
  scale_in_place(q_, 7.0);
  scale_in_place(k_, 0.01);
  expect_near(run("softmax:score=cosine", options), before, 1e-12);
}

TEST_F(Score, TemperaturesEndAtAHundred) {
  AttentionOptions high, cap;
  high.weights = {filled({kHeads}, 50.0)};
  cap.weights = {filled({kHeads}, std::log(100.0))};
  expect_near(run("softmax:score=cosine", high), run("softmax:score=cosine", cap), 1e-12);
  Tape tape(context_);
  const Var o = attention(tape, q_, k_, v_, Mechanism::parse("softmax:score=cosine"), high).output;
  const Tensor ones = Tensor::empty(context_, o.shape(), DType::f64);
  ones.fill(1.0);
  tape.backward(std::vector<Var>{o}, std::vector<Tensor>{ones});
  for (double g : high.weights[0].grad().to_vector<double>()) EXPECT_EQ(g, 0.0);
}

TEST_F(Score, BilinearHasNoRotary) {
  AttentionOptions options;
  options.weights = {filled({kHeads, kWidth, kWidth}, 0.1)};
  options.rotary = Rotary{};
  EXPECT_NE(error_of([&] { run("softmax:score=bilinear", options); }).find("rotary"), std::string::npos);
}

TEST_F(Score, BucketsOfT5) {
  const Buckets both;
  EXPECT_EQ(t5_bucket(0, both), 0);
  EXPECT_EQ(t5_bucket(-1, both), 1);
  EXPECT_EQ(t5_bucket(1, both), 17);
  for (std::int64_t far : {128, 129, 100000}) {
    EXPECT_EQ(t5_bucket(-far, both), 15);
    EXPECT_EQ(t5_bucket(far, both), 31);
  }
  const Buckets causal{.bidirectional = false};
  EXPECT_EQ(t5_bucket(-16, causal), 16);
  EXPECT_EQ(t5_bucket(-128, causal), 31);
  EXPECT_EQ(t5_bucket(3, causal), 0);
}

TEST_F(Score, T5TableIsABiasOfTheDistance) {
  const Var table = random({32, kHeads}, 9);
  AttentionOptions dense, diagonal;
  dense.bias = filled({1, kHeads, kN, kN}, 0.0);
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t i = 0; i < kN; ++i)
      for (std::int64_t j = 0; j < kN; ++j)
        dense.bias.value().data<double>()[(h * kN + i) * kN + j] =
            table.value().data<double>()[t5_bucket(j - i, {}) * kHeads + h];
  Tape tape(context_, {.record = false});
  diagonal.diagonal_bias = t5_bias(tape, table, kN);
  for (const char* mechanism : {"softmax", "topk:k=5", "diag:block=4"})
    expect_near(run(mechanism, diagonal), run(mechanism, dense), 1e-13);
}

TEST_F(Score, DiagonalsThatDoNotFitAreRefused) {
  AttentionOptions options;
  options.diagonal_bias = random({1, kHeads, 2 * kN - 3}, 4);
  EXPECT_NE(error_of([&] { run("softmax", options); }).find("lengths up to 20"), std::string::npos);
  options.diagonal_bias = random({1, kHeads, 2 * kN}, 4);
  EXPECT_NE(error_of([&] { run("softmax", options); }).find("2 L - 1"), std::string::npos);
  options.diagonal_bias = random({1, kHeads, 2 * kN - 1}, 4);
  options.bias = random({1, 1, kN, kN}, 4);
  EXPECT_NE(error_of([&] { run("softmax", options); }).find("together"), std::string::npos);
  options.bias = {};
  EXPECT_NE(error_of([&] { run("norm", options); }).find("bias by distance"), std::string::npos);
}

TEST_F(Score, BadBucketsAreRefused) {
  Tape tape(context_, {.record = false});
  const Var table = random({30, kHeads}, 9);
  EXPECT_THROW(t5_bias(tape, table, kN, {.count = 30}), Error);
  EXPECT_THROW(t5_bias(tape, table, kN), Error);
  EXPECT_THROW(t5_bias(tape, random({32, kHeads}, 9), 0), Error);
  EXPECT_THROW(t5_bias(tape, random({32, kHeads}, 9), kN, {.max_distance = 8}), Error);
}

TEST_F(Score, ShawWithoutVectorsIsSoftmax) {
  for (const auto& [text, rows] :
       {std::pair("shaw:clip=1", 3), std::pair("shaw:clip=5", 11), std::pair("shaw:clip=40", 81)})
    for (const bool causal : {false, true}) {
      AttentionOptions options, plain;
      options.causal = plain.causal = causal;
      options.weights = {filled({rows, kWidth}, 0.0), filled({rows, kWidth}, 0.0)};
      expect_near(run(text, options), run("softmax", plain), 1e-12);
    }
}

// A clip no distance reaches is no clip: the rows of the wider table that both have decide alone.
TEST_F(Score, ShawBeyondTheLengthIsUnclipped) {
  const std::int64_t clip = kN - 1;
  const Var keys = random({2 * clip + 7, kWidth}, 11), values = random({2 * clip + 7, kWidth}, 12);
  Tape tape(context_, {.record = false});
  const auto middle = [&](const Var& x) { return slice(tape, x, 0, 3, 3 + 2 * clip + 1); };
  AttentionOptions wide, exact;
  wide.weights = {keys, values};
  exact.weights = {middle(keys), middle(values)};
  expect_near(run("shaw:clip=23", wide), run("shaw:clip=20", exact), 1e-12);
}

TEST_F(Score, XlWithoutBiasesAndEncodingIsSoftmax) {
  AttentionOptions options;
  options.weights = {filled({kHeads, kWidth}, 0.0), filled({kHeads, kWidth}, 0.0), filled({kHeads, kWidth, 16}, 0.0)};
  expect_near(run("xl", options), run("softmax"), 1e-12);
}

TEST_F(Score, XlRefusesAnOddEncoding) {
  EXPECT_NE(error_of([&] { run("xl:channels=7"); }).find("even"), std::string::npos);
}

}  // namespace
}  // namespace fovea
