// What the laws do not cover: refusals, empty inputs, and the meaning of special values.

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/ops.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/ops/ops_fixture.h"

namespace fovea::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Edges : public OpsTest {
 protected:
  Edges() : OpsTest(50, kTraining) {}
};

TEST_F(Edges, WrongShapesAreNamed) {
  const Var x = draw({2, 3}), cube = draw({2, 3, 4}), scalar = draw({});
  EXPECT_ERROR(linear(tape_, x, draw({4, 5})), ErrorCode::shape, "(2, 3) and weight of shape (4, 5)", "", "(in, out)");
  EXPECT_ERROR(linear(tape_, x, draw({3, 5}), draw({4})), ErrorCode::shape, "bias of shape (4,)", "", "(out)");
  EXPECT_ERROR(matmul(tape_, x, draw({4, 5})), ErrorCode::shape, "cannot multiply", "", "");
  EXPECT_ERROR(matmul(tape_, x, draw({3, 5}, DType::f32)), ErrorCode::usage, "f64 and f32", "", "");
  EXPECT_ERROR(add(tape_, x, draw({2})), ErrorCode::shape, "(2, 3) and f64(2,)", "", "last axes");
  EXPECT_ERROR(mul(tape_, draw({3}), x), ErrorCode::shape, "mul of", "", "");
  EXPECT_ERROR(glu(tape_, x, Activation::silu), ErrorCode::shape, "(2, 3)", "", "");
  EXPECT_ERROR(softmax(tape_, scalar), ErrorCode::shape, "scalar", "", "");
  EXPECT_ERROR(normalize(tape_, x, {NormKind::rms, 1e-5, draw({2}), {}}), ErrorCode::shape, "gain of shape (2,)",
               "norm.gain", "");
  EXPECT_ERROR(normalize(tape_, x, {NormKind::rms, -1.0, {}, {}}), ErrorCode::usage, "negative", "norm.eps", "");
  EXPECT_ERROR(add_norm(tape_, x, draw({3, 2}), 0, {}), ErrorCode::shape, "branch", "", "");
  EXPECT_ERROR(mean_pool(tape_, x, {}), ErrorCode::shape, "pooling", "", "(batch, n, width)");
  EXPECT_ERROR(mean_pool(tape_, cube, {{1}, {}}), ErrorCode::shape, "1 lengths", "rows", "");
  EXPECT_ERROR(mean(tape_, draw({0, 2})), ErrorCode::shape, "empty", "", "");
  EXPECT_ERROR(slice(tape_, x, 2, 0, 1), ErrorCode::shape, "axis 2", "", "");
  EXPECT_ERROR(cast(tape_, x, DType::i32), ErrorCode::usage, "i32", "", "");
  EXPECT_ERROR(dropout(tape_, x, 1.0), ErrorCode::usage, "outside [0, 1)", "dropout_p", "");
  EXPECT_ERROR(dropout(tape_, x, std::nan("")), ErrorCode::usage, "outside", "dropout_p", "");
}

TEST_F(Edges, WrongConcatAndRotation) {
  const Var parts[] = {draw({2, 3}), draw({2, 4}), draw({3, 3})};
  EXPECT_ERROR(concat(tape_, parts, 1), ErrorCode::shape, "(2, 3) and (3, 3)", "", "other axes");
  EXPECT_ERROR(concat(tape_, {}, 0), ErrorCode::usage, "nothing", "", "");
  const Var x = draw({1, 2, 1, 4});
  EXPECT_ERROR(rotate(tape_, draw({2, 3}), ids({2, 3}, std::vector<std::int32_t>(6)), {}), ErrorCode::shape, "(2, 3)",
               "", "heads");
  EXPECT_ERROR(rotate(tape_, x, ids({2}, {0, 1}), {}), ErrorCode::shape, "i32(2,)", "positions", "");
  EXPECT_ERROR(rotate(tape_, x, ids({1, 2}, {0, 1}), {10000.0, false, 5}), ErrorCode::shape, "5 of 4", "rotary.width",
               "");
  EXPECT_ERROR(rotate(tape_, x, ids({1, 2}, {0, 1}), {0.0, false, 0}), ErrorCode::usage, "positive", "rotary.base", "");
}

TEST_F(Edges, TokensOutsideTheVocabulary) {
  const Var table = draw({5, 3});
  EXPECT_ERROR(embedding(tape_, table, ids({2}, {4, 5})), ErrorCode::bad_input, "token 5", "tokens[1]", "0 to 4");
  EXPECT_ERROR(embedding(tape_, table, ids({2}, {-1, 0})), ErrorCode::bad_input, "token -1", "tokens[0]", "0 to 4");
  EXPECT_ERROR(embedding(tape_, table, draw({2})), ErrorCode::usage, "must be i32", "", "");
  EXPECT_ERROR(embedding(tape_, draw({5}), ids({1}, {0})), ErrorCode::shape, "(5,)", "table", "vocabulary");
  EXPECT_ERROR(gather(tape_, table, ids({1}, {7})), ErrorCode::bad_input, "index 7", "index[0]", "");
}

TEST_F(Edges, CrossEntropyRefusals) {
  const Var logits = draw({2, 4});
  EXPECT_ERROR(cross_entropy(tape_, logits, ids({2}, {0, 4})), ErrorCode::bad_input, "target 4 of row 1", "targets[1]",
               "0 to 3");
  EXPECT_ERROR(cross_entropy(tape_, logits, ids({2}, {-2, 0})), ErrorCode::bad_input, "target -2", "targets[0]",
               "ignore");
  EXPECT_ERROR(cross_entropy(tape_, logits, ids({3}, {0, 0, 0})), ErrorCode::shape, "(2, 4) and targets (3,)", "", "");
  EXPECT_ERROR(cross_entropy(tape_, logits, draw({2})), ErrorCode::usage, "i32", "targets", "");
  EXPECT_ERROR(cross_entropy(tape_, logits, ids({2}, {0, 0}), {2.0, -1}), ErrorCode::usage, "[0, 1]", "label_smoothing",
               "");
}

TEST_F(Edges, CrossEntropyByHand) {
  const Var logits = Var::leaf(values({3, 2}, {0, 0, 1000, 0, 5, 5}));
  const Var loss = cross_entropy(tape_, logits, ids({3}, {0, 1, 9}), {0.0, 9});
  EXPECT_NEAR(loss.value().item(), (std::log(2.0) + 1000.0) / 2, 1e-9);
  tape_.backward(loss);
  EXPECT_EQ(logits.grad().to_vector<double>(), (std::vector<double>{-0.25, 0.25, 0.5, -0.5, 0, 0}));
  const Var smoothed = cross_entropy(tape_, values({1, 4}, {1, 2, 3, 4}), ids({1}, {2}), {0.1, -1});
  const double lse = std::log(std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4));
  EXPECT_NEAR(smoothed.value().item(), 0.9 * (lse - 3) + 0.1 * (lse - 2.5), 1e-12);
}

TEST_F(Edges, CrossEntropyOfNothingIsZero) {
  const Var logits = Var::leaf(draw({2, 3}));
  const Var loss = cross_entropy(tape_, logits, ids({2}, {-1, -1}));
  EXPECT_EQ(loss.value().item(), 0.0);
  tape_.backward(loss);
  EXPECT_EQ(logits.grad().to_vector<double>(), std::vector<double>(6, 0.0));
  EXPECT_EQ(cross_entropy(tape_, draw({0, 3}), Tensor::empty(context_, {0}, DType::i32)).value().item(), 0.0);
}

TEST_F(Edges, SoftmaxOfMaskedRows) {
  const Var x = Var::leaf(values({3, 2}, {-kInfinity, -kInfinity, 0, -kInfinity, 1e6, 1e6}));
  const Var y = softmax(tape_, x);
  EXPECT_EQ(y.value().to_vector<double>(), (std::vector<double>{0, 0, 1, 0, 0.5, 0.5}));
  tape_.backward(y, draw({3, 2}));
  for (double g : x.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
  const auto logs = log_softmax(tape_, x).value().to_vector<double>();
  EXPECT_EQ(logs[0], -kInfinity);
  EXPECT_EQ(logs[2], 0.0);
  EXPECT_NEAR(logs[4], -std::log(2.0), 1e-12);
  const Var columns = softmax(tape_, values({2, 2}, {-kInfinity, 0, -kInfinity, 0}), 0);
  EXPECT_EQ(columns.value().to_vector<double>(), (std::vector<double>{0, 0.5, 0, 0.5}));
  EXPECT_ERROR(softmax(tape_, x, 2), ErrorCode::shape, "axis 2", "", "");
}

// The gradient is y (g - mean g), and where a share is nearly 1, g - mean is as small as the others are.
TEST_F(Edges, SaturatedSoftmaxKeepsTheDigitsOfItsGradient) {
  const std::vector<double> scores{14.5, 0.25, -1.5, 2.0, 1.0}, pull{1.375, -2.0, 0.75, 1.25, 3.0};
  double sum = 0.0;
  for (const double s : scores) sum += std::exp(s);
  std::vector<double> want;  // y_i sum_j y_j (g_i - g_j)
  for (std::size_t i = 0; i < scores.size(); ++i) {
    double apart = 0.0;
    for (std::size_t j = 0; j < scores.size(); ++j) apart += std::exp(scores[j]) / sum * (pull[i] - pull[j]);
    want.push_back(std::exp(scores[i]) / sum * apart);
  }
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Var x = Var::leaf(values({5}, scores).to(context_, dtype));
    tape_.backward(softmax(tape_, x), values({5}, pull).to(context_, dtype));
    const auto dx = x.grad().to_vector<double>();
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(dx[i], want[i], (dtype == DType::f32 ? 2e-6 : 1e-14) * std::abs(want[i])) << i;
  }
}

TEST_F(Edges, SumsOfMaskedRows) {
  const Var x = Var::leaf(values({3, 2}, {-kInfinity, -kInfinity, 7, -kInfinity, 1e6, 1e6}));
  const Var y = log_sum_exp(tape_, x);
  EXPECT_EQ(y.value().to_vector<double>(), (std::vector<double>{-kInfinity, 7, 1e6 + std::log(2.0)}));
  tape_.backward(y, values({3}, {5, 1, 2}));
  const auto dx = x.grad().to_vector<double>();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(dx[i], i == 2 ? 1.0 : 0.0);
  EXPECT_NEAR(dx[4], 1.0, 1e-9);
  EXPECT_EQ(log_sum_exp(tape_, draw({2, 0})).value().to_vector<double>(), std::vector<double>(2, -kInfinity));
  EXPECT_EQ(log_sum_exp(tape_, draw({0, 2}, DType::bf16)).dtype(), DType::f32);
}

TEST_F(Edges, ANaNStaysInItsRow) {
  const auto y = softmax(tape_, values({2, 2}, {NAN, 0, 0, 0})).value().to_vector<double>();
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 0.5);
  EXPECT_TRUE(std::isnan(activate(tape_, values({1}, {NAN}), Activation::relu).value().item()));
}

TEST_F(Edges, NormsByHand) {
  const Tensor x = values({1, 4}, {1, 2, 3, 6});
  const auto layer = normalize(tape_, x, {NormKind::layer, 0.5, {}, {}}).value().to_vector<double>();
  EXPECT_NEAR(layer[3], 3.0 / std::sqrt(3.5 + 0.5), 1e-12);
  const auto rms = normalize(tape_, x, {NormKind::rms, 0.5, {}, {}}).value().to_vector<double>();
  EXPECT_NEAR(rms[3], 6.0 / std::sqrt(12.5 + 0.5), 1e-12);
  const auto rms_a = normalize(tape_, x, {NormKind::rms_a, 0.5, {}, {}}).value().to_vector<double>();
  EXPECT_NEAR(rms_a[3], 6.0 / (std::sqrt(12.5) + 0.5), 1e-12);
}

// A large common offset must not drown the variance, nor a zero row divide by zero.
TEST_F(Edges, NormsOfHardRows) {
  const Tensor x = draw({4, 64}, DType::f32);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] += 1000.0f;
  const Tensor got = normalize(tape_, x, {}).value(), want = normalize(tape_, x.to(context_, DType::f64), {}).value();
  EXPECT_LT(relative_error(got, want), 1e-4);
  for (NormKind kind : {NormKind::layer, NormKind::rms, NormKind::rms_a}) {
    const Var zero = Var::leaf(Tensor::zeros(context_, {2, 5}, DType::f64));
    const Var y = normalize(tape_, zero, {kind, 1e-6, {}, {}});
    tape_.backward(y, draw({2, 5}));
    for (double v : y.value().to_vector<double>()) EXPECT_EQ(v, 0.0);
    for (double g : zero.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
  }
}

// The mean of a row cannot be told exactly; where entries hardly differ, what it lost must not show in the gradient.
TEST_F(Edges, LayerNormOfNearlyEqualEntries) {
  const Tensor g = draw({40, 2}, DType::f32), x = draw({40, 2}, DType::f32);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = 1.5f + 0.003f * x.data<float>()[i];
  const auto gradients = [&](DType dtype) {
    const Var leaf = Var::leaf(x.to(context_, dtype));
    tape_.backward(normalize(tape_, leaf, {NormKind::layer, 1e-5, {}, {}}), g.to(context_, dtype));
    return leaf.grad().to_vector<double>();
  };
  const std::vector<double> got = gradients(DType::f32), want = gradients(DType::f64);
  for (std::size_t i = 0; i < got.size(); i += 2) {
    const double size = std::abs(want[i]);
    for (std::size_t j = i; j < i + 2; ++j) EXPECT_NEAR(got[j], want[j], 5e-6 * size) << "row " << i / 2;
  }
}

TEST_F(Edges, DropoutKeepsItsShareAndScalesIt) {
  const Tensor ones = Tensor::empty(context_, {100000}, DType::f32);
  ones.fill(1.0);
  const auto y = dropout(tape_, ones, 0.3).value().to_vector<float>();
  std::size_t kept = 0;
  for (float v : y) {
    ASSERT_TRUE(v == 0.0f || v == 65536.0f / (65536.0f - 19661.0f));  // 0.3 in steps of 1 / 65536
    kept += v != 0.0f;
  }
  EXPECT_NEAR(static_cast<double>(kept), 70000.0, 700.0);
  EXPECT_NE(dropout(tape_, ones, 0.3).value().to_vector<float>(), y);  // another stream
  Tape again(context_, {.record = true, .training = true});
  EXPECT_EQ(dropout(again, ones, 0.3).value().to_vector<float>(), y);  // the same place in another run
}

// The mask is the Philox half word of the element, on every instruction set and whatever the shape.
TEST_F(Edges, DropoutIsTheFunctionItSaysItIs) {
  on_every_isa([&](Isa) {
    Tape tape(context_, {.record = true, .training = true, .stream = (std::uint64_t{5} << 32) + 6});
    const Tensor x = Tensor::empty(context_, {173, 7}, DType::f32);
    x.fill(1.0);
    const auto y = dropout(tape, x, 0.25).value().to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const Philox words = philox(context_.seed(), i / 8, (std::uint64_t{5} << 32) + 6);
      const std::uint32_t half = words.word[i % 8 / 2] >> (16 * (i % 2)) & 0xffffu;
      ASSERT_EQ(y[i] != 0.0f, half >= 0x4000u) << i;
    }
  });
}

TEST_F(Edges, NoDropoutOutsideTraining) {
  Tape tape(context_);
  const Tensor x = draw({3, 4});
  EXPECT_EQ(dropout(tape, x, 0.5).value().raw(), x.raw());
  EXPECT_TRUE(same_bits(add_norm(tape, x, x, 0.5, {}).sum.value(), add(tape, x, x).value()));
}

TEST_F(Edges, CastGradientsComeBackInTheirType) {
  const Var x = Var::leaf(draw({3, 4}, DType::f32));
  const Var y = cast(tape_, x, DType::bf16);
  EXPECT_EQ(y.dtype(), DType::bf16);
  tape_.backward(y, draw({3, 4}, DType::bf16));
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_EQ(cast(tape_, x, DType::f32).value().raw(), x.value().raw());
}

TEST_F(Edges, ViewsCopyNothing) {
  const Var x = Var::leaf(draw({4, 6}));
  const auto before = context_.allocator()->total().now;
  const Var y = slice(tape_, transpose(tape_, reshape(tape_, x, {4, 3, 2}), 0, 1), 0, 1, 2);
  EXPECT_EQ(context_.allocator()->total().now, before);
  EXPECT_EQ(y.value().raw(), x.value().data<double>() + 2);
}

// Rotating by p and then seeing a shifted pair: scores depend on the distance alone.
TEST_F(Edges, RotationDependsOnDistance) {
  const Tensor q = draw({1, 1, 1, 8}), k = draw({1, 1, 1, 8});
  const auto score = [&](std::int32_t i, std::int32_t j, bool halves) {
    const auto a = rotate(tape_, q, ids({1, 1}, {i}), {10000.0, halves, 0}).value().to_vector<double>();
    const auto b = rotate(tape_, k, ids({1, 1}, {j}), {10000.0, halves, 0}).value().to_vector<double>();
    double dot = 0;
    for (std::size_t c = 0; c < a.size(); ++c) dot += a[c] * b[c];
    return dot;
  };
  for (bool halves : {false, true}) EXPECT_NEAR(score(3, 10, halves), score(100003, 100010, halves), 1e-8);
  const auto by_hand = rotate(tape_, values({1, 1, 1, 3}, {1, 0, 5}), ids({1, 1}, {2}), {}).value().to_vector<double>();
  EXPECT_NEAR(by_hand[0], std::cos(2.0), 1e-15);
  EXPECT_NEAR(by_hand[1], std::sin(2.0), 1e-15);
  EXPECT_EQ(by_hand[2], 5.0);
}

TEST_F(Edges, StretchedRotation) {
  const Tensor x = draw({1, 1, 2, 6});
  const Rotary stretched{.stretch = {.factor = 3.0}};
  EXPECT_LT(relative_error(rotate(tape_, x, ids({1, 1}, {6}), stretched).value(),
                           rotate(tape_, x, ids({1, 1}, {2}), {}).value()),
            1e-12);
  const RotaryStretch some{.factor = 4.0, .low = 1.0, .high = 3.0, .length = 100};
  const double turn = 2.0 * std::acos(-1.0) / 100.0;  // one turn in 100 positions
  EXPECT_NEAR(some.slowed(5.0 * turn), 5.0 * turn, 1e-15);
  EXPECT_NEAR(some.slowed(0.5 * turn), 0.125 * turn, 1e-15);
  EXPECT_NEAR(some.slowed(2.0 * turn), 0.5 * 0.5 * turn + 0.5 * 2.0 * turn, 1e-15);
  EXPECT_ERROR(rotate(tape_, x, ids({1, 1}, {6}), {.stretch = {.factor = 0.0}}), ErrorCode::usage, "positive",
               "rotary.stretch", "");
}

// Dense and scattered positions take different roads to the same angles.
TEST_F(Edges, RotationByAnyPositions) {
  const Tensor x = draw({1, 300, 2, 6});
  std::vector<std::int32_t> at(300);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int32_t>(i) + 1000;
  const Tensor dense = rotate(tape_, x, ids({1, 300}, at), {}).value();
  at[299] = 2000000000;
  at[298] = -7;
  const Tensor scattered = rotate(tape_, x, ids({1, 300}, at), {}).value();
  EXPECT_LT(relative_error(scattered.slice(1, 0, 298), dense.slice(1, 0, 298)), 1e-12);
}

TEST_F(Edges, EmptyInputsFlowThrough) {
  const Var rows = Var::leaf(Tensor::empty(context_, {0, 6}, DType::f32));
  const Var w = Var::leaf(draw({6, 4}, DType::f32)), b = Var::leaf(draw({4}, DType::f32));
  Var y = linear(tape_, rows, w, b, Activation::gelu);
  y = normalize(tape_, softmax(tape_, glu(tape_, y, Activation::silu)), {});
  y = add_norm(tape_, y, y, 0.1, {}).normed;
  y = mul(tape_, add(tape_, dropout(tape_, y, 0.1), y), y);
  const Var total = sum(tape_, y);
  EXPECT_EQ(total.value().item(), 0.0);
  tape_.backward(total);
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(24, 0.0f));
  EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(4, 0.0f));
  EXPECT_EQ(rows.grad().shape(), (Shape{0, 6}));
}

TEST_F(Edges, EmptyTablesAndPools) {
  const Var table = Var::leaf(draw({4, 3}, DType::f32));
  const Var none = embedding(tape_, table, Tensor::empty(context_, {2, 0}, DType::i32));
  EXPECT_EQ(none.shape(), (Shape{2, 0, 3}));
  const Var pooled = mean_pool(tape_, none, {});
  EXPECT_EQ(pooled.value().to_vector<float>(), std::vector<float>(6, 0.0f));
  tape_.backward(sum(tape_, pooled));
  EXPECT_EQ(table.grad().to_vector<float>(), std::vector<float>(12, 0.0f));
}

// Padding full of NaN reaches neither the mean nor the gradient.
TEST_F(Edges, PoolingIgnoresPadding) {
  const Tensor x = draw({2, 3, 2});
  x.slice(1, 2, 3).fill(NAN);
  const Var leaf = Var::leaf(x);
  const Var y = mean_pool(tape_, leaf, {{2, 0}, {}});
  for (double v : y.value().to_vector<double>()) EXPECT_FALSE(std::isnan(v));
  tape_.backward(sum(tape_, y));
  EXPECT_EQ(leaf.grad().to_vector<double>(), (std::vector<double>{0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(Edges, EmbeddingGradientsAddUpOverTapes) {
  const Var table = Var::leaf(draw({3, 2}, DType::f32));
  for (int round = 1; round <= 2; ++round) {
    Tape tape(context_);
    tape.backward(sum(tape, embedding(tape, table, ids({3}, {2, 0, 2}))));
    const float r = static_cast<float>(round);
    EXPECT_EQ(table.grad().to_vector<float>(), (std::vector<float>{r, r, 0, 0, 2 * r, 2 * r}));
  }
}

}  // namespace
}  // namespace fovea::testing
