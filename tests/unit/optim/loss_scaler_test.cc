#include <gtest/gtest.h>

#include <cmath>

#include "core/isa.h"
#include "support/expect_error.h"
#include "unit/optim/parameters.h"

namespace fovea::testing {
namespace {

TEST(LossScaler, UnscalesExactlyAndDoublesAfterCleanSteps) {
  Context context = poisoned();
  const Parameter p = parameter<float>(context, "p", {0.0f, 0.0f, 0.0f});
  LossScaler scaler;
  ASSERT_EQ(scaler.scale(), 65536.0);
  for (std::int64_t step = 1; step <= LossScaler::kCleanSteps; ++step) {
    give_gradient<float>(context, p, {65536.0f, -3.0f * 65536.0f, 1.0f});
    ASSERT_EQ(scaler.scale(), 65536.0);
    ASSERT_TRUE(unscaled(context, scaler, std::vector{p}));
    ASSERT_EQ(p.var.grad().to_vector<float>(), (std::vector<float>{1.0f, -3.0f, 0x1p-16f}));
  }
  EXPECT_EQ(scaler.scale(), 131072.0);
  EXPECT_EQ(scaler.state().clean, 0);
  EXPECT_EQ(scaler.state().skipped, 0);
}

// One bad number anywhere, at the ends of pieces and vectors too: no step is taken, and nothing has changed but the
// scale.
TEST(LossScaler, ABadGradientSkipsTheStepAndHalvesTheScale) {
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    for (const float bad : {INFINITY, -INFINITY, std::nanf("")})
      for (const std::size_t place : {0u, 16383u, 16384u, 40000u}) {
        Context context = poisoned();
        const Parameter a = parameter<float>(context, "a", draws<float>(0, 40001), true),
                        b = parameter<float>(context, "b", {3.0f});
        AdamW adamw(context, {a, b}, {.weight_decay = 0.1});
        LossScaler scaler;
        const auto before = a.var.value().to_vector<float>();
        auto grad = draws<float>(1, 40001);
        grad[place] = bad;
        give_gradient<float>(context, a, grad);
        give_gradient<float>(context, b, {1.0f});
        if (unscaled(context, scaler, adamw.parameters())) adamw.step(0.1);
        EXPECT_EQ(a.var.value().to_vector<float>(), before);
        EXPECT_EQ(b.var.value().item(), 3.0);
        EXPECT_FALSE(a.var.grad().defined() || b.var.grad().defined());
        EXPECT_EQ(adamw.steps(), 0);
        EXPECT_EQ(scaler.scale(), 32768.0);
        EXPECT_EQ(scaler.state().skipped, 1);
      }
  }
  force_isa(available_isas().back());
}

TEST(LossScaler, ASkipStartsTheCountAgain) {
  Context context = poisoned();
  const Parameter p = parameter<double>(context, "p", {0.0});
  LossScaler scaler;
  scaler.set_state({1024.0, LossScaler::kCleanSteps - 1, 5});
  give_gradient<double>(context, p, {INFINITY});
  EXPECT_FALSE(unscaled(context, scaler, std::vector{p}));
  give_gradient<double>(context, p, {512.0});
  EXPECT_TRUE(unscaled(context, scaler, std::vector{p}));
  EXPECT_EQ(p.var.grad().item(), 1.0);
  EXPECT_EQ(scaler.state().scale, 512.0);
  EXPECT_EQ(scaler.state().clean, 1);
  EXPECT_EQ(scaler.state().skipped, 6);
}

TEST(LossScaler, HasLimits) {
  Context context = poisoned();
  const Parameter p = parameter<float>(context, "p", {0.0f});
  LossScaler scaler;
  scaler.set_state({0x1p24, LossScaler::kCleanSteps - 1, 0});
  EXPECT_TRUE(unscaled(context, scaler, std::vector{p}));  // a parameter without a gradient is no obstacle
  EXPECT_EQ(scaler.scale(), 0x1p24);
  scaler.set_state({0x1p-14, 0, 30});
  give_gradient<float>(context, p, {INFINITY});
  EXPECT_ERROR(unscaled(context, scaler, std::vector{p}), ErrorCode::diverged, "any loss scale", "", "bf16");
  for (const double scale : {0.0, 3.0, -4.0, 0x1p25, std::nan("")})
    EXPECT_ERROR(scaler.set_state({scale, 0, 0}), ErrorCode::bad_input, "loss scale", "scale", "power of two");
}

}  // namespace
}  // namespace fovea::testing
