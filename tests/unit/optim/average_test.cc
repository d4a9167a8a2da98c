#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "unit/optim/parameters.h"

namespace fovea::testing {
namespace {

void set(const Parameter& p, double value) { p.var.value().fill(value); }

TEST(WeightAverage, ExponentialWarmsUp) {
  Context context = poisoned();
  const Parameter p = parameter<double>(context, "w", {1.0, 1.0});
  WeightAverage average(context, {p}, {.decay = 0.5});
  double want = 1.0;
  for (int t = 1; t <= 20; ++t) {
    set(p, t * t);
    average.update();
    const double decay = std::min(0.5, (1.0 + t) / (10.0 + t));
    want = decay * want + (1 - decay) * t * t;
    EXPECT_NEAR(average.averages()[0].to_vector<double>()[1], want, 1e-12) << t;
  }
  EXPECT_EQ(average.updates(), 20);
}

TEST(WeightAverage, MeanOfTheLastSteps) {
  Context context = poisoned();
  const Parameter p = parameter<double>(context, "w", {7.0});
  WeightAverage average(context, {p}, {.kind = AverageKind::mean, .start = 4});
  for (int t = 1; t <= 6; ++t) {
    set(p, t);
    average.update();
    const double want = t < 4 ? t : (4.0 + t) / 2;  // 4 .. t
    EXPECT_NEAR(average.averages()[0].item(), want, 1e-15) << t;
  }
}

TEST(WeightAverage, SwapsInPlaceAndBack) {
  Context context = poisoned();
  const Parameter a = parameter<float>(context, "a", {1.0f, 2.0f, 3.0f}), b = parameter<float>(context, "b", {4.0f});
  const Parameter kept{"kept", Var(Tensor::zeros(context, {2})), false};
  WeightAverage average(context, {a, kept, b}, {.kind = AverageKind::mean});
  ASSERT_EQ(average.parameters().size(), 2u);
  set(a, 10.0);
  set(b, 20.0);
  average.update();
  set(a, 30.0);
  set(b, 40.0);
  average.update();
  const auto before = context.allocator()->total().now;
  {
    const WithAverage swapped(average);
    EXPECT_TRUE(average.swapped());
    EXPECT_EQ(a.var.value().to_vector<float>(), (std::vector<float>{20, 20, 20}));
    EXPECT_EQ(b.var.value().to_vector<float>(), std::vector<float>{30});
    EXPECT_EQ(context.allocator()->total().now, before);
    EXPECT_ERROR(average.update(), ErrorCode::usage, "no update", "", "");
  }
  EXPECT_EQ(a.var.value().to_vector<float>(), (std::vector<float>{30, 30, 30}));
  EXPECT_EQ(average.averages()[1].to_vector<float>(), std::vector<float>{30});
}

// A run that was stopped and continued with what a checkpoint stores has the same bits.
TEST(WeightAverage, ContinuesFromItsTensors) {
  Context context = poisoned();
  for (const AverageKind kind : {AverageKind::exponential, AverageKind::mean}) {
    const WeightAverageOptions options{.kind = kind, .decay = 0.9, .start = 3};
    const Parameter p = parameter<float>(context, "p", draws<float>(0, 40001));
    WeightAverage whole(context, {p}, options);
    std::vector<float> stored;
    for (std::uint64_t t = 1; t <= 8; ++t) {
      p.var.value().copy_from(Tensor::from<float>(context, {40001}, draws<float>(t, 40001)));
      whole.update();
      if (t == 5) stored = whole.averages()[0].to_vector<float>();
    }
    WeightAverage resumed(context, {p}, options);
    resumed.set_updates(5);
    resumed.averages()[0].copy_from(Tensor::from<float>(context, {40001}, stored));
    for (std::uint64_t t = 6; t <= 8; ++t) {
      p.var.value().copy_from(Tensor::from<float>(context, {40001}, draws<float>(t, 40001)));
      resumed.update();
    }
    EXPECT_EQ(resumed.averages()[0].to_vector<float>(), whole.averages()[0].to_vector<float>());
  }
}

TEST(WeightAverage, SameBitsAtAnyThreadCount) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    Context context = poisoned(threads);
    const Parameter p = parameter<float>(context, "p", draws<float>(0, 70001));
    WeightAverage average(context, {p});
    p.var.value().copy_from(Tensor::from<float>(context, {70001}, draws<float>(1, 70001)));
    average.update();
    results.push_back(average.averages()[0].to_vector<float>());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(WeightAverage, RefusesWhatItCannotAverage) {
  Context context = poisoned();
  const Parameter half{"h", Var::leaf(Tensor::zeros(context, {3}, DType::bf16, Lifetime::persistent)), false};
  EXPECT_ERROR(WeightAverage(context, {half}), ErrorCode::usage, "f32 or f64", "h", "");
  EXPECT_ERROR(WeightAverage(context, {}, {.decay = 1.0}), ErrorCode::usage, "outside [0, 1)", "decay", "");
}

}  // namespace
}  // namespace fovea::testing
