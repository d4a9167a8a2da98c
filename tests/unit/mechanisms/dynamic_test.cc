#include <cmath>

#include "composed.h"

namespace fovea {
namespace {

using Informer = Composed;
using Reformer = Composed;
using Sinkhorn = Composed;

TEST_F(Informer, KeepingEveryQueryIsSoftmax) {
  for (const bool causal : {false, true})
    expect_near(output("informer:factor=1000", {.causal = causal}), output("softmax", {.causal = causal}));
}

TEST_F(Informer, TheOtherQueriesGetTheMean) {
  const std::vector<double> o = output("informer:factor=1"), v = v_.value().to_vector<double>();
  for (std::size_t head = 0; head < kHeads; ++head) {
    double mean = 0.0;
    for (std::size_t j = 0; j < kRows; ++j) mean += v[(j * kHeads + head) * kWidth] / kRows;
    int lazy = 0;
    for (std::size_t i = 0; i < kRows; ++i) lazy += std::abs(o[(i * kHeads + head) * kWidth] - mean) < 1e-12 ? 1 : 0;
    EXPECT_EQ(lazy, kRows - 4);  // ceil(ln 23) = 4 attend
  }
}

// 2 ceil(ln 4) = 4: all of the first four queries have a place.
TEST_F(Informer, TheFirstCausalQueriesAttend) {
  const std::vector<double> sparse = output("informer:factor=2", {.causal = true}),
                            dense = output("softmax", {.causal = true});
  for (std::size_t i = 0; i < 4 * kHeads * kWidth; ++i) EXPECT_NEAR(sparse[i], dense[i], 1e-12);
  EXPECT_NE(sparse, dense);
}

// Number p of an item's mixed output is number p of its output with heads before rows.
TEST_F(Informer, MixedOutputsHaveHeadsBeforeRows) {
  const std::vector<double> o = output("informer"), mixed = output("informer:mix=true");
  for (std::size_t item = 0; item < 2; ++item)
    for (std::size_t h = 0; h < kHeads; ++h)
      for (std::size_t i = 0; i < kRows; ++i)
        for (std::size_t c = 0; c < kWidth; ++c) {
          const std::size_t first = item * kRows * kHeads * kWidth;
          EXPECT_EQ(mixed[first + (h * kRows + i) * kWidth + c], o[first + (i * kHeads + h) * kWidth + c]);
        }
  EXPECT_FALSE(Mechanism::parse("informer:mix=true").supports(Feature::strict));
}

TEST_F(Informer, SamplesAreFreshOnlyInTraining) {
  const auto trained = [&](std::uint64_t stream) {
    Tape tape(context_, {.record = false, .training = true, .stream = stream});
    return attend(tape, "informer:factor=1").value().to_vector<double>();
  };
  EXPECT_EQ(output("informer:factor=1"), output("informer:factor=1"));
  EXPECT_EQ(trained(3), trained(3));
  bool differs = false;
  for (std::uint64_t stream = 4; stream < 10; ++stream) differs |= trained(3) != trained(stream);
  EXPECT_TRUE(differs);
}

TEST_F(Reformer, OneChunkIsSoftmaxOfUnitKeysWithoutItself) {
  const std::vector<double> hashed = output("reformer");
  std::vector<double> keys = k_.value().to_vector<double>();
  for (std::size_t r = 0; r < keys.size(); r += kWidth) {
    double squares = 0.0;
    for (std::size_t c = 0; c < kWidth; ++c) squares += keys[r + c] * keys[r + c];
    for (std::size_t c = 0; c < kWidth; ++c) keys[r + c] /= std::sqrt(squares);
  }
  k_ = Tensor::from<double>(context_, k_.shape(), keys);
  const Pattern others = Pattern::predicate("others", [](std::int64_t i, std::int64_t j) { return i != j; });
  expect_near(hashed, output("softmax", {.scale = 1.0, .pattern = others}), 1e-10);
}

TEST_F(Reformer, TheFirstCausalTokenReadsItself) {
  const std::vector<double> o = output("reformer:chunk=4", {.causal = true}), v = v_.value().to_vector<double>();
  for (std::size_t i = 0; i < kHeads * kWidth; ++i) EXPECT_NEAR(o[i], v[i], 1e-12);
}

TEST_F(Reformer, TheOrderOfRoundsDoesNotMatter) {
  AttentionOptions options;
  options.weights = weights_of("reformer:chunk=3");
  const std::vector<double> straight = output("reformer:chunk=3", options);
  const Tensor &from = options.weights[0].value(), turned = Tensor::empty(context_, from.shape(), DType::f64);
  for (std::int64_t r = 0; r < 2; ++r) turned.slice(0, r, r + 1).copy_from(from.slice(0, 1 - r, 2 - r));
  options.weights = {turned};
  expect_near(output("reformer:chunk=3", options), straight);
}

TEST_F(Reformer, EqualTokensMakeOneBucket) {
  k_.value().fill(0.25);
  for (double x : output("reformer:chunk=4", {.causal = true})) ASSERT_TRUE(std::isfinite(x));
}

TEST_F(Reformer, ZeroKeysStayFinite) {
  k_.value().fill(0.0);
  for (double x : output("reformer:chunk=4")) ASSERT_TRUE(std::isfinite(x));
}

TEST_F(Sinkhorn, OneBlockIsSoftmax) {
  const std::vector<double> dense = output("softmax");
  expect_near(output("sinkhorn"), dense);
  expect_near(output("sinkhorn:cut=1"), dense);
  std::vector<double> twice = dense;
  for (double& x : twice) x *= 2.0;
  expect_near(output("sinkhorn:combine=sum"), twice);
}

// Means of blocks that match one to one, and a low temperature: block u reads block (u + 1) % 4.
TEST_F(Sinkhorn, AColdMatrixIsAPermutation) {
  const auto shaped = [&](std::int64_t shift, std::uint64_t seed) {
    const Tensor x = random({1, 16, 1, 8}, seed).value();
    for (std::int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] *= 0.1;
    for (std::int64_t i = 0; i < 16; ++i) x.data<double>()[i * 8 + (i / 4 + shift) % 4] += 3.0;
    return Var::leaf(x);
  };
  q_ = shaped(1, 1);
  k_ = shaped(0, 2);
  v_ = random({1, 16, 1, 5}, 3);
  const Pattern pairs = Pattern::predicate(
      "sorted", [](std::int64_t i, std::int64_t j) { return i / 4 == j / 4 || (i / 4 + 1) % 4 == j / 4; });
  expect_near(output("sinkhorn:block=4,temperature=0.01,iterations=20"), output("softmax", {.pattern = pairs}), 1e-9);
}

TEST_F(Sinkhorn, TheFirstCausalBlockReadsItself) {
  const std::vector<double> routed = output("sinkhorn:block=5", {.causal = true}),
                            dense = output("softmax", {.causal = true});
  for (std::size_t i = 0; i < 5 * kHeads * kWidth; ++i) EXPECT_NEAR(routed[i], dense[i], 1e-12);
}

// A doubly stochastic matrix without later blocks is the identity: iterated for long, blocks read themselves alone.
TEST_F(Sinkhorn, TheMaskedIterationEndsInNoSorting) {
  const std::vector<double> own = output("diag:block=5", {.causal = true});
  const auto distance = [&](const char* text) {
    const std::vector<double> o = output(text, {.causal = true});
    double most = 0.0;
    for (std::size_t i = 0; i < o.size(); ++i) most = std::fmax(most, std::abs(o[i] - own[i]));
    return most;
  };
  EXPECT_GT(distance("sinkhorn:block=5,causal=sinkhorn,iterations=1"), 0.05);
  EXPECT_LT(distance("sinkhorn:block=5,causal=sinkhorn,iterations=1024"), 0.02);
  EXPECT_FALSE(Mechanism::parse("sinkhorn:causal=sinkhorn").supports(Feature::strict));
}

TEST_F(Sinkhorn, ALearnedSortIsMadeForALength) {
  const Mechanism learned = Mechanism::parse("sinkhorn:block=5,sort=learned");
  EXPECT_TRUE(learned.needs_input());
  EXPECT_FALSE(Mechanism("sinkhorn").needs_input());
  AttentionOptions options;
  options.input = random({2, kRows, 4}, 7);
  const auto weights = [&](std::int64_t length) {
    return make_weights(
        context_, learned,
        {.heads = kHeads, .kv_heads = kHeads, .d_k = kWidth, .d_v = kWidth, .width = 4, .max_length = length},
        DType::f64);
  };
  options.weights = weights(20);
  EXPECT_EQ(refusal("sinkhorn:block=5,sort=learned", options), ErrorCode::bad_input);
  options.weights = weights(64);  // 13 blocks, of which 5 are there
  for (double x : output("sinkhorn:block=5,sort=learned", options)) ASSERT_TRUE(std::isfinite(x));
}

TEST_F(Sinkhorn, NoiseComesOnlyInTraining) {
  const auto trained = [&](std::uint64_t stream) {
    Tape tape(context_, {.record = false, .training = true, .stream = stream});
    return attend(tape, "sinkhorn:block=5").value().to_vector<double>();
  };
  EXPECT_EQ(output("sinkhorn:block=5"), output("sinkhorn:block=5"));
  EXPECT_EQ(trained(3), trained(3));
  EXPECT_NE(trained(3), trained(4));
}

using DynamicRefusals = Composed;

TEST_F(DynamicRefusals, NameWhatIsMissing) {
  EXPECT_EQ(refusal("sinkhorn:cut=2", {.causal = true}), ErrorCode::unsupported);
  AttentionOptions options;
  options.weights = {Tensor::zeros(context_, {2, kWidth, 3}, DType::f64)};
  EXPECT_EQ(refusal("reformer", options), ErrorCode::shape);
  EXPECT_THROW(Mechanism::parse("informer:factor=0"), Error);
  EXPECT_THROW(Mechanism::parse("sinkhorn:block=0"), Error);
  EXPECT_THROW(Mechanism::parse("reformer:directions=0"), Error);
  q_ = q_.value().slice(1, 0, 7);
  EXPECT_EQ(refusal("reformer"), ErrorCode::unsupported);
  EXPECT_EQ(refusal("sinkhorn"), ErrorCode::unsupported);
}

}  // namespace
}  // namespace fovea
