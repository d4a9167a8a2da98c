#include <gtest/gtest.h>

#include "nn/stack.h"
#include "support/draws.h"
#include "support/expect_error.h"

namespace fovea::nn {
namespace {

class Layers : public ::testing::Test {
 protected:
  Scope scope() { return Scope(context_, DType::f64, parameters_); }
  Var random(const Shape& shape, std::uint64_t stream) {
    Random draws(3, stream);
    return Var::leaf(testing::random(context_, shape, draws));
  }
  StackSpec config() {
    StackSpec config;
    config.width = 6;
    config.inner = 5;
    config.dtype = DType::f64;
    config.dropout = config.inner_dropout = config.attention_dropout = 0.0;
    return config;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Parameter& p : parameters_) names.push_back(p.name);
    return names;
  }

  Context context_{{.threads = 2, .seed = 1, .memory = {.poison = true}}};
  Tape tape_{context_, {.record = true}};
  std::vector<Parameter> parameters_;
};

TEST_F(Layers, ScopeNamesParameters) {
  (scope() / "layers" / 1 / "norm").add("gain", {4}, Init::ones());
  scope().add("w", {2, 3}, Init::zeros(), true);
  EXPECT_EQ(names(), (std::vector<std::string>{"layers.1.norm.gain", "w"}));
  EXPECT_EQ(parameters_[0].var.value().to_vector<double>(), std::vector<double>(4, 1.0));
  EXPECT_TRUE(parameters_[1].decay);
  EXPECT_EQ(parameters_[1].var.value().to_vector<double>(), std::vector<double>(6, 0.0));
}

TEST_F(Layers, NormHasTheParametersOfItsKind) {
  StackSpec c = config();
  const NormLayer a(scope() / "a", c);
  c.norm = StackNorm::rms;
  const NormLayer b(scope() / "b", c);
  c.norm = StackNorm::batch;
  const NormLayer d(scope() / "d", c);
  c.norm = StackNorm::group;
  c.norm_affine = false;
  const NormLayer e(scope() / "e", c);
  EXPECT_EQ(names(),
            (std::vector<std::string>{"a.gain", "a.bias", "b.gain", "d.gain", "d.bias", "d.mean", "d.variance"}));
  c.norm = StackNorm::instance;
  c.causal = true;
  EXPECT_ERROR(NormLayer(scope(), c), ErrorCode::unsupported, "mixes positions", "norm", "group");
}

// s4d reads values alone: two heads of them serve six.
TEST_F(Layers, ValuesAloneMayBeGrouped) {
  StackSpec c = config();
  c.layers = {"s4d"};
  c.heads = 6;
  c.kv_heads = 2;
  c.head_width = 3;
  c.positions = Positions::none;
  const AttentionLayer layer(scope(), c, 0);
  for (const std::int64_t n : {5, 0}) {
    const Var x = random({2, n, 6}, 1);
    EXPECT_EQ(layer(tape_, x, {}).shape(), x.shape());
  }
}

TEST_F(Layers, QueriesThatAreKeysCannotBeGrouped) {
  StackSpec c = config();
  c.layers = {"reformer"};
  c.kv_heads = 1;
  EXPECT_ERROR(AttentionLayer(scope(), c, 0), ErrorCode::unsupported, "as many heads of both", "", "kv_heads=0");
}

TEST_F(Layers, SplitGivesViewsAndGathersTheirGradients) {
  const Var qkv = random({2, 3, 6, 4}, 1);  // 2 heads
  const std::vector<Var> parts = split_heads(tape_, qkv, {2, 2, 2});
  const Var &q = parts[0], &k = parts[1], &v = parts[2];
  EXPECT_EQ(q.shape(), (Shape{2, 3, 2, 4}));
  EXPECT_EQ(k.value().raw(), qkv.value().data<double>() + 8);  // no copy
  EXPECT_EQ(v.value().raw(), qkv.value().data<double>() + 16);
  // d/dx of sum(q * k), v unused.
  tape_.backward(sum(tape_, mul(tape_, reshape(tape_, q, {48}), reshape(tape_, k, {48}))));
  const auto x = qkv.value().to_vector<double>(), g = qkv.grad().to_vector<double>();
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(g[row * 24 + i], x[row * 24 + 8 + i]);
      EXPECT_EQ(g[row * 24 + 8 + i], x[row * 24 + i]);
      EXPECT_EQ(g[row * 24 + 16 + i], 0.0);
    }
}

TEST_F(Layers, PostNormRowsHaveMeanZeroAndVarianceOne) {
  StackSpec c = config();
  c.placement = NormPlacement::post;
  const Stack stack(scope(), c);
  const Var y = stack(tape_, random({1, 7, 6}, 2), std::make_shared<Layout>());
  const auto values = y.value().to_vector<double>();
  for (std::size_t row = 0; row < 7; ++row) {
    double mean = 0.0, square = 0.0;
    for (std::size_t i = 0; i < 6; ++i) {
      mean += values[row * 6 + i] / 6;
      square += values[row * 6 + i] * values[row * 6 + i] / 6;
    }
    EXPECT_NEAR(mean, 0.0, 1e-12);
    EXPECT_NEAR(square, 1.0, 1e-3);
  }
}

TEST_F(Layers, PreNormWithSilentSubLayersIsTheFinalNorm) {
  StackSpec c = config();
  const Stack stack(scope(), c);
  for (const Parameter& p : parameters_)
    if (p.name.find(".out.") != std::string::npos) p.var.value().fill(0.0);
  const Var x = random({1, 7, 6}, 2);
  const Var y = stack(tape_, x, std::make_shared<Layout>());
  EXPECT_EQ(y.value().to_vector<double>(), normalize(tape_, x, {.eps = c.norm_eps}).value().to_vector<double>());
}

TEST_F(Layers, ErrorsNameTheLayer) {
  StackSpec c = config();
  c.layers = {"softmax", "no-such-thing"};
  EXPECT_ERROR(Stack(scope(), c), ErrorCode::usage, "no-such-thing", "layers[1].attention", "");
  c.layers = {"softmax", "softmax"};
  const Stack stack(scope() / "second", c);
  auto layout = std::make_shared<Layout>();
  layout->rows.lengths = {3, 4};  // for a batch of 1
  EXPECT_ERROR(stack(tape_, random({1, 7, 6}, 2), layout), ErrorCode::shape, "lengths", "layers[0].attention", "");
}

}  // namespace
}  // namespace fovea::nn
