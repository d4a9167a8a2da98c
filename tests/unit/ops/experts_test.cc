// Routing of tokens to experts against its definition, and what it refuses.

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"
#include "fovea/ops.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/ops/ops_fixture.h"

namespace fovea::testing {
namespace {

class Experts : public OpsTest {
 protected:
  Experts() : OpsTest(130, kTraining) {}
};

using Ids = std::vector<std::int32_t>;

TEST_F(Experts, TokensGoToTheLargestLogitUntilItIsFull) {
  const Tensor logits = values({6, 2}, {2, 1, 0, 1, 3, 0, 5, 5, 9, 0, -1, 4});
  const Routing routing = route_top1(tape_, logits, {.capacity = 2});
  EXPECT_EQ(routing.tokens.entries.to_vector<std::int32_t>(), (Ids{0, 2, 1, 5, -1, -1}));  // 3 and 4 came too late
  EXPECT_EQ(routing.begin.to_vector<std::int32_t>(), (Ids{0, 2, 4}));
  EXPECT_EQ(routing.dropped.item(), 2);
  const auto gates = routing.gates.value().to_vector<double>();
  EXPECT_NEAR(gates[1], 1 / (1 + std::exp(-3.0)), 1e-12);
  EXPECT_NEAR(gates[3], 1 / (1 + std::exp(-5.0)), 1e-12);
  EXPECT_EQ(gates[4], 0.0);
}

TEST_F(Experts, PaddingGoesNowhere) {
  const Var logits = Var::leaf(values({2, 2, 2}, {1, 0, NAN, NAN, 0, 1, NAN, NAN}));
  const Routing routing = route_top1(tape_, logits, {.capacity = 5, .rows = {{1, 1}, {}}});
  EXPECT_EQ(routing.tokens.entries.to_vector<std::int32_t>(), (Ids{0, 2, -1, -1}));
  EXPECT_NEAR(routing.balance.value().item(), 1.0, 1e-12);
  tape_.backward(add(tape_, routing.balance, sum(tape_, routing.gates)));
  const auto d = logits.grad().to_vector<double>();
  for (std::size_t i : {2u, 3u, 6u, 7u}) EXPECT_EQ(d[i], 0.0);
  EXPECT_NE(d[0], 0.0);
}

// The one expert there is has gate 1: the same as a layer without a router.
TEST_F(Experts, OneExpertIsDense) {
  const Var x = draw({5, 3});
  const Routing routing = route_top1(tape_, draw({5, 1}), {.capacity = expert_capacity(5, 1, 1.0)});
  const Var y = scatter_rows(tape_, to_experts(tape_, x, routing), routing.tokens, 5, routing.gates);
  EXPECT_TRUE(same_bits(y.value(), x.value()));
  EXPECT_EQ(routing.balance.value().item(), 1.0);
}

// Equal shares and equal probabilities: 1, the least there is; all on one expert: their number.
TEST_F(Experts, BalanceIsOneAtItsBest) {
  const double large = 50.0;
  const Tensor even = values({4, 4}, {large, 0, 0, 0, 0, large, 0, 0, 0, 0, large, 0, 0, 0, 0, large});
  EXPECT_NEAR(route_top1(tape_, even, {.capacity = 1}).balance.value().item(), 1.0, 1e-12);
  const Tensor one = values({2, 4}, {large, 0, 0, 0, large, 0, 0, 0});
  EXPECT_NEAR(route_top1(tape_, one, {.capacity = 1}).balance.value().item(), 4.0, 1e-12);
}

TEST_F(Experts, TokensLeftOutGetNothingAndGiveNothing) {
  const Var x = Var::leaf(draw({3, 2})), logits = Var::leaf(values({3, 2}, {1, 0, 2, 0, 3, 0}));
  const Routing routing = route_top1(tape_, logits, {.capacity = 1});
  const Var y = scatter_rows(tape_, to_experts(tape_, x, routing), routing.tokens, 3, routing.gates);
  const auto out = y.value().to_vector<double>();
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(out[i], 0.0);
  tape_.backward(y, draw({3, 2}));
  const auto dx = x.grad().to_vector<double>(), d = logits.grad().to_vector<double>();
  for (std::size_t i = 2; i < 6; ++i) EXPECT_TRUE(dx[i] == 0.0 && d[i] == 0.0);
  EXPECT_NE(dx[0], 0.0);
  EXPECT_NE(d[0], 0.0);
}

// Probabilities are f32 whatever the activations are.
TEST_F(Experts, ProbabilitiesAreWide) {
  const Routing routing = route_top1(tape_, draw({7, 3}, DType::f16), {.capacity = 9});
  EXPECT_EQ(routing.gates.dtype(), DType::f32);
  EXPECT_EQ(routing.balance.dtype(), DType::f32);
}

TEST_F(Experts, NoTokens) {
  const Var logits = Var::leaf(draw({0, 3}));
  const Routing routing = route_top1(tape_, logits, {.capacity = 1});
  EXPECT_EQ(routing.begin.to_vector<std::int32_t>(), (Ids{0, 0, 0, 0}));
  EXPECT_EQ(routing.balance.value().item(), 0.0);
  tape_.backward(routing.balance);
  EXPECT_EQ(logits.grad().shape(), (Shape{0, 3}));
}

// One after the other, an expert without rows among them: the same bits as a layer for each, and gradients of 0 where
// no row came by.
TEST_F(Experts, ProductsAreThoseOfEachExpert) {
  const std::vector<std::int32_t> ends = {0, 3, 3, 7};
  for (const Activation activation : {Activation::identity, Activation::relu, Activation::gelu}) {
    const Var x = Var::leaf(draw({9, 4}, DType::f32)), same = Var::leaf(x.value());
    ExpertLinear layer;
    layer.activation = activation;
    std::vector<Var> weights, biases, parts;
    for (std::size_t e = 0; e < 3; ++e) {
      layer.weights.push_back(Var::leaf(draw({4, 5}, DType::f32)));
      layer.biases.push_back(Var::leaf(draw({5}, DType::f32)));
      weights.push_back(Var::leaf(layer.weights[e].value()));
      biases.push_back(Var::leaf(layer.biases[e].value()));
      if (ends[e] < ends[e + 1])
        parts.push_back(linear(tape_, slice(tape_, same, 0, ends[e], ends[e + 1]), weights[e], biases[e], activation));
    }
    const Var y = expert_linear(tape_, x, ids({4}, ends), layer), want = concat(tape_, parts, 0);
    EXPECT_TRUE(same_bits(y.value().slice(0, 0, 7).clone(context_), want.value()));
    for (const double rest : y.value().slice(0, 7, 9).clone(context_).to_vector<double>()) EXPECT_EQ(rest, 0.0);
    const Tensor g = draw({9, 5}, DType::f32);
    tape_.backward(std::vector{y, want}, std::vector{g, g.slice(0, 0, 7).clone(context_)});
    EXPECT_TRUE(same_bits(x.grad(), same.grad()));
    for (const std::size_t e : {0u, 2u}) {
      EXPECT_TRUE(same_bits(layer.weights[e].grad(), weights[e].grad()));
      EXPECT_TRUE(same_bits(layer.biases[e].grad(), biases[e].grad()));
    }
    for (const double d : layer.weights[1].grad().to_vector<double>()) EXPECT_EQ(d, 0.0);
    for (const double d : layer.biases[1].grad().to_vector<double>()) EXPECT_EQ(d, 0.0);
  }
}

TEST_F(Experts, CapacitiesRoundUp) {
  EXPECT_EQ(expert_capacity(100, 8, 1.25), 16);  // 15.625
  EXPECT_EQ(expert_capacity(64, 8, 1.0), 8);
  EXPECT_EQ(expert_capacity(0, 8, 1.25), 1);
  EXPECT_ERROR(expert_capacity(5, 0, 1.25), ErrorCode::usage, "0 experts", "", "");
  EXPECT_ERROR(expert_capacity(5, 2, NAN), ErrorCode::usage, "nan", "", "");
}

TEST_F(Experts, JitterIsTheFunctionItSaysItIs) {
  on_every_isa([&](Isa) {
    Tape tape(context_, {.record = true, .training = true, .stream = 77});
    const Tensor x = Tensor::empty(context_, {173, 7}, DType::f32);
    x.fill(1.0);
    const auto y = jitter(tape, x, 0.01).value().to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float u = uniform01(philox(context_.seed(), i / 4, 77).word[i % 4]);
      ASSERT_NEAR(y[i], 0.99f + 0.02f * u, 1e-6f) << i;
    }
  });
  Tape evaluation(context_);
  const Tensor x = draw({3});
  EXPECT_EQ(jitter(evaluation, x, 0.5).value().raw(), x.raw());
  EXPECT_ERROR(jitter(tape_, x, 1.0), ErrorCode::usage, "outside [0, 1)", "jitter", "");
}

TEST_F(Experts, Refusals) {
  const Var x = draw({2, 3});
  EXPECT_ERROR(route_top1(tape_, draw({2}), {.capacity = 1}), ErrorCode::shape, "(2,)", "logits", "experts");
  EXPECT_ERROR(route_top1(tape_, draw({2, 0}), {.capacity = 1}), ErrorCode::shape, "(2, 0)", "logits", "");
  EXPECT_ERROR(route_top1(tape_, x, {}), ErrorCode::usage, "0 tokens", "capacity", "expert_capacity");
  EXPECT_ERROR(scatter_rows(tape_, x, ids({2}, {0, 0}), 3), ErrorCode::bad_input, "row 0 is put twice", "index[1]", "");
  EXPECT_ERROR(scatter_rows(tape_, x, ids({2}, {0, 3}), 3), ErrorCode::bad_input, "row 3 of 3", "index[1]", "");
  EXPECT_ERROR(scatter_rows(tape_, x, ids({2}, {-1, 0}), 3), ErrorCode::bad_input, "row -1", "index[0]", "");
  EXPECT_ERROR(scatter_rows(tape_, x, ids({3}, {0, 1, 2}), 3), ErrorCode::shape, "(3,)", "", "(m)");
  const ExpertLinear layer{.weights = {draw({3, 2}), draw({3, 3})}, .biases = {}};
  EXPECT_ERROR(expert_linear(tape_, x, ids({2}, {0, 2}), layer), ErrorCode::shape, "begin at (2,)", "", "(m, in)");
  EXPECT_ERROR(expert_linear(tape_, x, ids({3}, {0, 1, 2}), layer), ErrorCode::shape, "(3, 3)", "weights[1]", "(3, 2)");
  EXPECT_ERROR(scatter_rows(tape_, x, ids({2}, {0, 1}), 3, draw({3})), ErrorCode::shape, "scale of shape (3,)", "", "");
}

}  // namespace
}  // namespace fovea::testing
