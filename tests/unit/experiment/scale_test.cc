#include <gtest/gtest.h>

#include <cmath>

#include "dist/threads.h"
#include "experiment/scale/link.h"
#include "experiment/scale/mesh_forecast.h"
#include "support/expect_error.h"

namespace fovea {
namespace {

TEST(CostCurve, GoesThroughItsPoints) {
  const CostCurve dense = fit_curve({2, 100, 2 * 100 * (3 + 0.5 * 100)}, {1, 200, 200 * (3 + 0.5 * 200)}, true);
  EXPECT_NEAR(dense.at(4, 1000), 4 * 1000 * (3 + 0.5 * 1000), 1e-6);
  const CostCurve linear = fit_curve({1, 100, 7 + 300}, {1, 200, 7 + 600}, false);
  EXPECT_NEAR(linear.fixed, 7, 1e-9);
  EXPECT_NEAR(linear.at(2, 1000), 7 + 6000, 1e-6);
}

TEST(CostCurve, NeverFallsWithTheLength) {
  // Noise: the longer one took less.
  for (const bool quadratic : {false, true}) {
    const CostCurve curve = fit_curve({1, 100, 9}, {1, 200, 5}, quadratic);
    EXPECT_GE(curve.fixed, 0.0);
    EXPECT_GE(curve.per_token, 0.0);
    EXPECT_GE(curve.per_pair, 0.0);
    EXPECT_NEAR(curve.at(1, 200), 5, 1e-9);
  }
  // Steeper than a line allows: no negative part before it.
  EXPECT_GE(fit_curve({1, 100, 1}, {1, 200, 50}, false).fixed, 0.0);
}

TEST(Link, IsRead) {
  const RankLink link = RankLink::parse("25GB/s,5us");
  EXPECT_DOUBLE_EQ(link.bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(link.latency, 5e-6);
  EXPECT_DOUBLE_EQ(RankLink::parse("100Gbit/s,1ms").bytes_per_second, 12.5e9);
  for (const char* bad : {"", "25GB/s", "5us,25GB/s", "0GB/s,5us", "nanGB/s,5us", "25,5", "-1GB/s,1us", "1GB/s,-1us"})
    EXPECT_ERROR(RankLink::parse(bad), ErrorCode::usage, "no link", "--link", "--link 25GB/s,5us");
}

TEST(Link, IsTheSameOnEveryRank) {
  dist::run_threads(2, [](const dist::Group& all) {
    const RankLink link = RankLink::measure(all);
    EXPECT_GT(link.bytes_per_second, 0.0);
    EXPECT_GT(link.latency, 0.0);
    const std::vector<double> others = all.all_gather(std::array{link.bytes_per_second, link.latency});
    EXPECT_EQ(others[0], others[2]);
    EXPECT_EQ(others[1], others[3]);
  });
}

// A second and a byte for each token in each layer, and so many weights.
StepModel even_model(const std::string& layer, std::int64_t weights) {
  StepModel model;
  model.order = {layer, layer};
  model.layers[layer] = {{0.0, 1.0, 0.0}, {0.0, 1.0, 0.0}, weights};
  return model;
}

ModelConfig config_of(const std::string& layer) {
  ModelConfig config = ModelConfig::preset("gpt");
  config.set_attention(layer);
  return config;
}

const MeshForecast& mesh(const MeshForecasts& all, std::int64_t data, std::int64_t sequence) {
  for (const MeshForecast& m : all.meshes)
    if (m.shape.data == data && m.shape.sequence == sequence) return m;
  throw std::runtime_error("no such mesh");
}

TEST(MeshForecast, DividesWorkAndCountsWhatTravels) {
  const StepModel step = even_model("norm", 1000);
  const ModelConfig config = config_of("norm");
  const Cluster cluster{.ranks = 4, .link = {1e30, 0.0}};
  const MeshForecasts all = forecast_meshes(step, config, {.length = 100, .batch = 8}, cluster);
  ASSERT_EQ(all.meshes.size(), 3u);
  for (const MeshForecast& m : all.meshes) EXPECT_NEAR(m.compute, 2 * 800 / 4.0, 1e-9) << m.shape.text();
  // 16 bytes for each of 2000 weights and 4 for the buckets; activations of two sequences, or of half of four of them.
  EXPECT_NEAR(mesh(all, 4, 1).memory, 20 * 2000 + 2 * 200, 1e-9);
  EXPECT_NEAR(mesh(all, 2, 2).memory, 20 * 2000 + 2 * 4 * 50, 1e-9);
  EXPECT_NEAR(mesh(all, 4, 1).received, 2 * 0.75 * 4 * 2000, 1e-9);
  const double state = static_cast<double>(config.heads) * 64 * 64 * 8;
  EXPECT_NEAR(mesh(all, 1, 4).received, 2 * 0.75 * 4 * 2000 + 8 * 2 * 2 * 3 * state, 1e-6);
}

TEST(MeshForecast, LastRankOfACausalRingHasMostWork) {
  StepModel step = even_model("softmax", 0);
  step.layers["softmax"].seconds = {0.0, 0.0, 1.0};
  const MeshForecasts all =
      forecast_meshes(step, config_of("softmax"), {.length = 100, .batch = 1}, {.ranks = 4, .link = {1e30, 0.0}});
  ASSERT_EQ(all.meshes.size(), 1u);  // one example is not divided
  EXPECT_NEAR(all.meshes[0].compute, 2 * 100 * 100 / 4.0 * 1.75, 1e-9);
  EXPECT_FALSE(all.left_out.empty());
}

TEST(MeshForecast, PutsWhatFitsFirstAndDividesTheStateWhereMemoryIsShort) {
  const StepModel step = even_model("norm", 1'000'000);
  const Cluster cluster{.ranks = 2, .memory = 35e6, .link = {1e9, 1e-6}};
  const MeshForecasts all = forecast_meshes(step, config_of("norm"), {.length = 16, .batch = 2}, cluster);
  EXPECT_TRUE(all.meshes.front().fits);
  EXPECT_TRUE(all.meshes.front().shape.divides(dist::Divide::state));
  EXPECT_FALSE(all.meshes.back().fits);
}

TEST(MeshForecast, SaysWhatHasNoDividedForm) {
  const MeshForecasts all = forecast_meshes(even_model("reformer", 10), config_of("norm"), {.length = 16, .batch = 4},
                                            {.ranks = 2, .link = {1e9, 1e-6}});
  ASSERT_EQ(all.left_out.size(), 1u);
  EXPECT_NE(all.left_out[0].find("reformer"), std::string::npos);
}

TEST(StepCost, MeasuresTasksThatReadTokens) {
  for (const Task task : {Task::classify, Task::lm, Task::mlm}) {
    ModelConfig model = ModelConfig::preset(task == Task::lm ? "gpt" : task == Task::mlm ? "roberta" : "norm");
    model.width = 16, model.heads = 2, model.inner = 16, model.layers = {"norm"};
    model.vocabulary = 32, model.classes = task == Task::classify ? 3 : 0;
    TrainConfig train;
    train.batch = 2, train.steps = 2;
    const Dataset data = random_tokens({.task = task, .examples = 4, .length = 12, .vocabulary = 32, .classes = 3});
    const StepCost cost = measure_steps({.threads = 1}, model, data, train);
    EXPECT_GT(cost.seconds, 0.0);
    EXPECT_EQ(cost.steps, 2);
    EXPECT_EQ(cost.tokens, (2 + kWarmSteps) * 24);
    EXPECT_GT(cost.peak_memory, 16u * static_cast<std::size_t>(cost.parameters));
  }
  EXPECT_ERROR(random_tokens({.task = Task::vision, .examples = 1, .length = 4}), ErrorCode::unsupported, "vision",
               "model.task", "classify, lm or mlm");
}

}  // namespace
}  // namespace fovea
