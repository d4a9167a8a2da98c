#include "fovea/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/mechanisms/mechanism_calls.h"

namespace fovea {
namespace {

class Attention : public MechanismCalls, public ::testing::Test {};

TEST_F(Attention, NormIgnoresTheSizeOfValues) {
  Var large = random({1, 21, 2, 8}, 3);
  for (std::int64_t i = 0; i < large.value().numel(); ++i) large.value().data<double>()[i] *= 37.0;
  for (const char* mechanism : {"norm", "diag:weights=rela,block=8"})
    expect_near(run(mechanism), run_on({q_, k_, large}, mechanism), 1e-5);
}

// Their outputs are normalised, which loses a positive scale but not a sign.
TEST_F(Attention, ANegativeScaleTurnsTheSign) {
  for (const char* mechanism : {"retnet", "gla"}) {
    AttentionOptions options{.causal = true, .scale = 0.5};
    options.input = random({1, 21, 5}, 4);
    options.weights = make_weights(context_, Mechanism(mechanism),
                                   {.heads = 2, .kv_heads = 2, .d_k = 8, .d_v = 8, .width = 5}, DType::f64);
    std::vector<double> turned = run(mechanism, options);
    for (double& x : turned) x = -x;
    options.scale = -0.5;
    expect_near(run(mechanism, options), turned, 1e-12);
  }
}

TEST_F(Attention, ABiasAndAMaskOfNoTokens) {
  const Var none = random({1, 0, 2, 8}, 1), bias = random({1, 2, 0, 1}, 4);
  AttentionOptions options{.bias = bias, .mask = Tensor::zeros(context_, {1, 1, 1, 0}, DType::u8)};
  Tape tape(context_);
  const Var out = attention(tape, none, none, none, Mechanism("softmax"), options).output;
  tape.backward(out, Tensor::zeros(context_, out.shape(), DType::f64));
  EXPECT_EQ(out.value().numel(), 0);
  // One query, no keys: the bias is read nowhere, and has a gradient of 0.
  const Var one = random({1, 1, 2, 8}, 1), row = random({1, 2, 1, 1}, 4);
  options.bias = row;
  const Var zero = attention(tape, one, none, none, Mechanism("softmax"), options).output;
  tape.backward(zero, Tensor::zeros(context_, zero.shape(), DType::f64));
  EXPECT_EQ(zero.value().to_vector<double>(), std::vector<double>(16, 0.0));
  EXPECT_EQ(row.grad().to_vector<double>(), std::vector<double>(2, 0.0));
}

TEST_F(Attention, LinearOfZerosIsTheRunningMean) {
  const Var zero(Tensor::zeros(context_, {1, 21, 2, 8}, DType::f64));
  const std::vector<double> o = run_on({zero, zero, v_}, "linear:eps=0", {.causal = true});
  const double* v = v_.value().data<double>();
  std::vector<double> sum(16, 0.0);
  for (std::size_t t = 0; t < 21; ++t)
    for (std::size_t c = 0; c < 16; ++c) {
      sum[c] += v[t * 16 + c];
      EXPECT_NEAR(o[t * 16 + c], sum[c] / static_cast<double>(t + 1), 1e-12);
    }
}

TEST_F(Attention, AWideBlockIsFullAttention) { expect_near(run("diag:block=64"), run("softmax"), 1e-12); }

// 21 tokens in blocks of 8: the published code appends 3 rows of zeros.
TEST_F(Attention, AFilledTailIsASequenceOfZerosMore) {
  const auto longer = [&](const Var& x) {
    const Tensor y = Tensor::zeros(context_, {1, 24, 2, 8}, DType::f64);
    y.slice(1, 0, 21).copy_from(x.value());
    return Var(y);
  };
  std::vector<double> want = run_on({longer(q_), longer(k_), longer(v_)}, "diag:block=8");
  want.resize(21 * 16);
  expect_near(run("diag:block=8,tail=zeros"), want, 1e-12);
  expect_near(run("diag:block=8,tail=zeros", {.causal = true}), run("diag:block=8", {.causal = true}), 0.0);
}

TEST_F(Attention, MaskBiasPatternAndWindowAgree) {
  std::vector<std::uint8_t> keep(21 * 21);
  std::vector<double> bias(21 * 21);
  for (std::int64_t i = 0; i < 21; ++i)
    for (std::int64_t j = 0; j < 21; ++j) {
      const bool kept = j <= i + 1 && j >= i - 3;
      keep[static_cast<std::size_t>(i * 21 + j)] = kept;
      bias[static_cast<std::size_t>(i * 21 + j)] = kept ? 0.0 : -INFINITY;
    }
  const Shape shape{1, 1, 21, 21};
  const auto window = run("softmax", {.window = Window{3, 1}});
  const auto predicate = run(
      "softmax",
      {.pattern = Pattern::predicate("band", [](std::int64_t i, std::int64_t j) { return j <= i + 1 && j >= i - 3; })});
  AttentionOptions masked, biased;
  masked.mask = Tensor::from<std::uint8_t>(context_, shape, keep);
  biased.bias = Tensor::from<double>(context_, shape, bias);
  expect_near(window, predicate, 0.0);
  expect_near(window, run("softmax", masked), 1e-14);
  expect_near(window, run("softmax", biased), 1e-14);
}

TEST_F(Attention, OneQueryAtTheEndSeesEverything) {
  const Var last(q_.value().slice(1, 20, 21));
  expect_near(run_on({last, k_, v_}, "softmax", {.causal = true}), run_on({last, k_, v_}, "softmax"), 1e-14);
}

TEST_F(Attention, MergeJoinsAnyPartitionOfKeys) {
  Tape tape(context_);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    const AttentionResult r = attention(tape, q_, slice(tape, k_, 1, begin, end), slice(tape, v_, 1, begin, end),
                                        Mechanism("softmax"), {.return_lse = true});
    return Partial{r.output, r.lse};
  };
  const Partial whole = merge(tape, merge(tape, part(0, 5), part(5, 6)), part(6, 21));
  expect_near(whole.output.value().to_vector<double>(), run("softmax"), 1e-12);

  const Tensor seed = random({1, 21, 2, 8}, 9).value();
  tape.backward(whole.output, seed);
  const std::vector<double> dq = q_.grad().to_vector<double>(), dk = k_.grad().to_vector<double>(),
                            dv = v_.grad().to_vector<double>();
  for (const Var* x : {&q_, &k_, &v_}) x->slot()->grad = Tensor();
  Tape direct(context_);
  direct.backward(attention(direct, q_, k_, v_, Mechanism("softmax")).output, seed);
  expect_near(dq, q_.grad().to_vector<double>(), 1e-11);
  expect_near(dk, k_.grad().to_vector<double>(), 1e-11);
  expect_near(dv, v_.grad().to_vector<double>(), 1e-11);
}

TEST_F(Attention, MergeWithAnEmptyPartChangesNothing) {
  Tape tape(context_);
  const AttentionResult full = attention(tape, q_, k_, v_, Mechanism("softmax"), {.return_lse = true});
  const Tensor nothing = Tensor::zeros(context_, {1, 21, 2, 8}, DType::f64),
               none = Tensor::empty(context_, {1, 21, 2}, DType::f64);
  none.fill(-INFINITY);
  const Partial merged = merge(tape, {full.output, full.lse}, {Var::leaf(nothing), Var::leaf(none)});
  expect_near(merged.output.value().to_vector<double>(), full.output.value().to_vector<double>(), 0.0);
  tape.backward(merged.output, random({1, 21, 2, 8}, 9).value());
  for (double g : q_.grad().to_vector<double>()) ASSERT_TRUE(std::isfinite(g));
  const Partial empty = merge(tape, {Var(nothing), Var(none)}, {Var(nothing), Var(none)});
  for (double x : empty.output.value().to_vector<double>()) ASSERT_EQ(x, 0.0);
}

TEST_F(Attention, WrongShapesAreNamed) {
  const auto says = [&](const std::string& words, const Var& q, const Var& k, const Var& v,
                        const AttentionOptions& o = {}) {
    const std::string text = error_of([&] { run_on({q, k, v}, "softmax", o); });
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  says("4 axes", random({21, 2, 8}, 1), k_, v_);
  says("k has width 7", q_, random({1, 21, 2, 7}, 1), v_);
  says("v has length 20", q_, k_, random({1, 20, 2, 8}, 1));
  says("not a multiple", q_, random({1, 21, 3, 8}, 1), random({1, 21, 3, 8}, 1));
  says("one floating dtype", q_, k_, random({1, 21, 2, 8}, 1).value().to(context_, DType::f32));
  says("dropout_p", q_, k_, v_, {.dropout_p = 1.0});
  says("lengths for a batch", q_, k_, v_, {.queries = {.lengths = {21, 3}}});
  says("outside [0, 21]", q_, k_, v_, {.queries = {.lengths = {22}}});
  AttentionOptions bias;
  bias.bias = random({1, 2, 21, 20}, 1);
  says("bias has shape", q_, k_, v_, bias);
}

TEST_F(Attention, SupportMatrixErrorsNameTheCell) {
  const std::string text = error_of([&] { run("norm", {.window = Window{3, 3}}); });
  EXPECT_NE(text.find("attention \"norm\" has no window"), std::string::npos) << text;
  EXPECT_NE(text.find("norm x window"), std::string::npos) << text;
  EXPECT_NE(text.find("fovea list --with window"), std::string::npos) << text;
}

TEST_F(Attention, StepCachesAreTrimmed) {
  DecodeState state;
  Tape tape(context_, {.record = false});
  for (int t = 0; t < 500; ++t)
    attention_step(tape, q_.value().slice(1, 0, 1), k_.value().slice(1, 0, 1), v_.value().slice(1, 0, 1),
                   Mechanism::parse("diag:block=16"), state);
  EXPECT_EQ(state.length, 500);
  EXPECT_LE(state.held, 16);
  EXPECT_LE(state.keys.dim(1), 64);
}

}  // namespace
}  // namespace fovea
