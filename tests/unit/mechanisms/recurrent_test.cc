#include <algorithm>
#include <cmath>

#include "composed.h"

namespace fovea {
namespace {

class Recurrent : public Composed {
 protected:
  // The largest gradient that rows [0, end) of x get from rows [begin, kRows) of the output.
  double gradient_from(const std::string& text, const Var& x, std::int64_t end, std::int64_t begin) {
    for (const Var& leaf : {q_, k_, v_}) leaf.slot()->grad = Tensor();
    Tape tape(context_);
    const Var o = attend(tape, text, {.causal = true});
    const Tensor seed = Tensor::zeros(context_, o.shape(), DType::f64);
    seed.slice(1, begin, kRows).copy_from(random(seed.slice(1, begin, kRows).shape(), 9).value());
    tape.backward(o, seed);
    double most = 0.0;
    for (double g : x.grad().slice(1, 0, end).to_vector<double>()) most = std::fmax(most, std::abs(g));
    return most;
  }
};
using TransformerXl = Recurrent;
using Compressive = Recurrent;
using Memformer = Recurrent;

TEST_F(TransformerXl, SegmentsWithMemoryAreOneLongSegment) {
  AttentionOptions options{.causal = true};
  options.weights = weights_of("transformer-xl");
  expect_near(output("transformer-xl:segment=5,memory=23", options), output("transformer-xl:segment=23", options),
              1e-11);
}

TEST_F(TransformerXl, WithoutPositionsItIsSoftmax) {
  AttentionOptions options{.causal = true};
  for (const Var& w : weights_of("transformer-xl"))
    options.weights.emplace_back(Tensor::zeros(context_, w.shape(), DType::f64));
  expect_near(output("transformer-xl:segment=5,memory=23", options), output("softmax", {.causal = true}));
  const Pattern blocks = Pattern::block_diagonal(5);
  expect_near(output("transformer-xl:segment=5,memory=0", options),
              output("softmax", {.causal = true, .pattern = blocks}));
}

TEST_F(TransformerXl, ScoresDependOnDistancesAlone) {
  for (const Var& x : {q_, k_, v_}) x.value().slice(1, 8, 16).copy_from(x.value().slice(1, 0, 8));
  const std::vector<double> o = output("transformer-xl:segment=8,memory=0");
  const std::ptrdiff_t segment = 8 * kHeads * kWidth;
  expect_near({o.begin(), o.begin() + segment}, {o.begin() + segment, o.begin() + 2 * segment});
}

TEST_F(TransformerXl, TheMemoryGetsNoGradient) {
  for (const Var& x : {k_, v_}) {
    EXPECT_EQ(gradient_from("transformer-xl:segment=10,memory=10", x, 10, 10), 0.0);
    EXPECT_GT(gradient_from("transformer-xl:segment=10,memory=10,stop=false", x, 10, 10), 1e-6);
  }
}

// One segment of 37 tokens and one of a single one: tiles of two sizes in one call, whose scratch must suit both.
TEST_F(TransformerXl, SegmentsOfAllLengthsShareACall) {
  const Mechanism mechanism = Mechanism::parse("transformer-xl:segment=37");
  const Shape shape{1, 38, kHeads, 128};
  const std::vector<Tensor> exact{random(shape, 1).value(), random(shape, 2).value(), random(shape, 3).value()};
  const auto gradients = [&](DType dtype) {
    std::vector<Var> x;
    for (const Tensor& leaf : exact) x.push_back(Var::leaf(leaf.to(context_, dtype)));
    AttentionOptions options;
    options.weights =
        make_weights(context_, mechanism, {.heads = kHeads, .kv_heads = kHeads, .d_k = 128, .d_v = 128}, dtype);
    Tape tape(context_);
    const Var o = attention(tape, x[0], x[1], x[2], mechanism, options).output;
    tape.backward(o, random(o.shape(), 9).value().to(context_, dtype));
    std::vector<double> all;
    for (const Var& leaf : x) {
      const std::vector<double> g = leaf.grad().to_vector<double>();
      all.insert(all.end(), g.begin(), g.end());
    }
    return all;
  };
  expect_near(gradients(DType::f32), gradients(DType::f64), 1e-4);
}

TEST_F(Compressive, ALongMemoryIsSoftmax) {
  expect_near(output("compressive:segment=5,memory=23,slots=0", {.causal = true}), output("softmax", {.causal = true}));
}

TEST_F(Compressive, ARateOfOneForgetsNothing) {
  expect_near(output("compressive:segment=5,memory=4,rate=1", {.causal = true}), output("softmax", {.causal = true}));
}

TEST_F(Compressive, AConstantMemoryIsReadAsItIs) {
  k_.value().slice(1, 0, 12).fill(0.5);
  v_.value().slice(1, 0, 12).fill(2.0);
  q_.value().fill(0.0);  // all keys weigh the same: 4 means, then the token itself
  const std::vector<double> o = output("compressive:segment=12,memory=0,rate=3", {.causal = true});
  const double v = v_.value().to_vector<double>()[12 * kHeads * kWidth];
  EXPECT_NEAR(o[12 * kHeads * kWidth], (4 * 2.0 + v) / 5.0, 1e-12);
}

TEST_F(Compressive, AConvolutionThatAveragesIsTheMean) {
  const std::string mechanism = "compressive:segment=5,memory=2,rate=3,pool=conv";
  AttentionOptions options;
  options.causal = true;
  options.weights = weights_of(mechanism);
  for (const Var& w : options.weights) {
    w.value().fill(0.0);
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t row = 0; row < 3 * kWidth; ++row)
        w.value().data<double>()[(h * 3 * kWidth + row) * kWidth + row % kWidth] = 1.0 / 3.0;
  }
  expect_near(output(mechanism, options), output("compressive:segment=5,memory=2,rate=3", {.causal = true}));
}

TEST_F(Compressive, TheMaximumOfAGroupIsTakenChannelByChannel) {
  q_.value().fill(0.0);  // all keys weigh the same: one group, then the token itself
  const std::vector<double> o = output("compressive:segment=3,memory=0,rate=3,pool=max", {.causal = true});
  const std::vector<double> v = v_.value().to_vector<double>();
  constexpr std::size_t kRow = kHeads * kWidth;
  for (std::size_t c = 0; c < kRow; ++c) {
    const double most = std::max({v[c], v[kRow + c], v[2 * kRow + c]});
    EXPECT_NEAR(o[3 * kRow + c], (most + v[3 * kRow + c]) / 2.0, 1e-12);
  }
}

TEST_F(Compressive, TheMemoriesGetNoGradient) {
  for (const Var& x : {k_, v_}) {
    EXPECT_EQ(gradient_from("compressive:segment=10,memory=4", x, 10, 10), 0.0);
    EXPECT_GT(gradient_from("compressive:segment=10,memory=4,stop=false", x, 6, 10), 1e-6);
  }
}

TEST_F(Memformer, OneSlotIsAConstant) {
  AttentionOptions options;
  options.weights = weights_of("memformer:slots=1");
  std::vector<double> want = output("softmax");
  const std::vector<double> slot = options.weights[1].value().to_vector<double>();
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += slot[i % slot.size()];
  expect_near(output("memformer:slots=1", options), want);
}

TEST_F(Memformer, FarSlotsAreNotReadJointly) {
  AttentionOptions options;
  options.weights = weights_of("memformer:read=joint");
  q_.value().fill(1.0);
  options.weights[0] = Tensor::zeros(context_, options.weights[0].shape(), DType::f64);
  options.weights[0].value().fill(-1e3);
  expect_near(output("memformer:read=joint", options), output("softmax"));
}

TEST_F(Memformer, NoiseIsAnotherMemoryAtEveryCall) {
  Tape tape(context_, {.record = false});
  const auto once = [&](const char* text) { return attend(tape, text).value().to_vector<double>(); };
  EXPECT_EQ(once("memformer"), once("memformer"));
  EXPECT_NE(once("memformer:noise=true"), once("memformer:noise=true"));
}

TEST_F(Memformer, JointReadsHaveNoWindow) {
  EXPECT_EQ(refusal("memformer:read=joint", {.window = Window{2, 2}}), ErrorCode::unsupported);
}

}  // namespace
}  // namespace fovea
