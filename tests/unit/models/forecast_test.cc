#include <gtest/gtest.h>

#include <cmath>

#include "models/network.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/tensors.h"

namespace fovea {
namespace {

ModelConfig memformer(bool recurrent = false) {
  ModelConfig config = families::family("memformer-forecast");
  config.series->channels = 3;
  config.series->recurrent = recurrent;
  return config;
}

class ForecastTest : public ::testing::Test {
 protected:
  std::vector<double> forecast(const Model& model, const Batch& batch) {
    Tape tape(context_, {.record = false});
    return model.forward(tape, batch).value().to_vector<double>();
  }
  static Tensor find(const Model& model, std::string_view name) {
    for (const Parameter& p : model.parameters())
      if (p.name == name) return p.var.value();
    fail(ErrorCode::usage, "no such parameter", std::string(name));
  }
  // Channels in another order: the last one first.
  Tensor turned(const Tensor& x, int axis) {
    const std::int64_t last = x.dim(axis) - 1;
    const Tensor out = Tensor::empty(context_, x.shape(), x.dtype());
    for (std::int64_t i = 0; i <= last; ++i) out.select(axis, (i + 1) % (last + 1)).copy_from(x.select(axis, i));
    return out;
  }

  Context context_ = testing::poisoned();
};

TEST_F(ForecastTest, LossIsTheMeanSquareAndCountsDistances) {
  for (const char* name : {"informer-forecast", "memformer-forecast"}) {
    const ModelConfig config = families::family(name);
    const Model model(context_, config);
    const Batch batch = families::random_batch(context_, config, 1);
    const std::vector<double> got = forecast(model, batch), wanted = batch.targets.to_vector<double>();
    ASSERT_EQ(got.size(), 3 * 3 * 2U);
    double squares = 0.0, distances = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      squares += (got[i] - wanted[i]) * (got[i] - wanted[i]);
      distances += std::abs(got[i] - wanted[i]);
    }
    Tape tape(context_, {.record = false});
    const Loss loss = model.loss(tape, batch);
    EXPECT_NEAR(loss.value.value().item(), squares / 18, 1e-12);
    EXPECT_NEAR(loss.deviation.item(), distances, 1e-12);
    EXPECT_EQ(loss.asked.item(), 18);
  }
}

// Channels have no order of their own: tables that move with them give forecasts that do.
TEST_F(ForecastTest, MemformerFollowsAPermutationOfChannels) {
  for (const bool recurrent : {false, true}) {
    const ModelConfig config = memformer(recurrent);
    const Model model(context_, config);
    find(model, "norm.gain").copy_from(testing::random(context_, {3}, 1));
    find(model, "norm.bias").copy_from(testing::random(context_, {3}, 2));
    Batch batch = families::random_batch(context_, config, 1);
    Tape tape(context_, {.record = false});
    const Tensor expected = turned(model.forward(tape, batch).value(), 2);
    for (const auto& [name, axis] : {std::pair("norm.gain", 0), std::pair("norm.bias", 0),
                                     std::pair("memory.sources", 1), std::pair("memory.sinks", 1)})
      find(model, name).copy_from(turned(find(model, name), axis));
    batch.input.values = turned(batch.input.values, 2);
    EXPECT_LT(testing::relative_error(model.forward(tape, batch).value(), expected), 1e-12);
  }
}

TEST_F(ForecastTest, MemformerFollowsLevelAndSizeOfEverySeries) {
  const ModelConfig config = memformer();
  const Model model(context_, config);
  Batch batch = families::random_batch(context_, config, 1);
  const std::vector<double> plain = forecast(model, batch);
  float* values = batch.input.values.data<float>();
  for (std::int64_t i = 0; i < batch.input.values.numel(); ++i) values[i] = 4.0f * values[i] - 32.0f;
  const std::vector<double> moved = forecast(model, batch);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(moved[i], 4.0 * plain[i] - 32.0, 1e-3);
}

// One channel alone still hears the others, along the graph.
TEST_F(ForecastTest, MemformerChannelsReadEachOther) {
  const ModelConfig config = memformer();
  const Model model(context_, config);
  Batch batch = families::random_batch(context_, config, 1);
  const std::vector<double> before = forecast(model, batch);
  float* values = batch.input.values.data<float>();
  for (std::int64_t row = 0; row < 9; ++row) values[row * 3] = static_cast<float>(row * row % 5);
  const std::vector<double> after = forecast(model, batch);
  EXPECT_GT(std::abs(after[1] - before[1]), 1e-6);  // the first example
  EXPECT_EQ(after.back(), before.back());           // another one
}

TEST_F(ForecastTest, HasTheSameBitsOnAnyNumberOfThreadsAndEveryTime) {
  for (const char* name : {"informer-forecast", "memformer-forecast"}) {
    std::vector<Tensor> kept;
    for (const int threads : {1, 2, 3, 3}) {
      Context context({.threads = threads, .seed = 5, .memory = {.poison = true}});
      const ModelConfig config = families::family(name, DType::f64);
      const Model model(context, config);
      Tape tape(context, {.record = false});
      kept.push_back(model.forward(tape, families::random_batch(context, config, 1)).value().clone(context));
      EXPECT_TRUE(testing::same_bits(kept[0].contiguous(context), kept.back().contiguous(context))) << name << threads;
    }
  }
}

TEST_F(ForecastTest, InformerReadsMarksAndTheRowsKnownToItsDecoder) {
  const ModelConfig config = families::family("informer-forecast");
  const Model model(context_, config);
  const Batch batch = families::random_batch(context_, config, 1);
  const std::vector<double> before = forecast(model, batch);
  for (const Tensor& part : {batch.input.values, batch.input.marks, batch.second.values, batch.second.marks}) {
    float& value = part.data<float>()[2];  // of the second row
    value += 1.0f;
    const std::vector<double> after = forecast(model, batch);
    EXPECT_GT(std::abs(after[0] - before[0]), 1e-9);
    EXPECT_EQ(after.back(), before.back());
    value -= 1.0f;
  }
}

TEST_F(ForecastTest, RefusesWhatDoesNotFit) {
  const ModelConfig config = families::family("informer-forecast");
  const Model model(context_, config);
  Batch batch = families::random_batch(context_, config, 1);
  batch.second.marks = batch.second.marks.slice(1, 0, 5);
  EXPECT_ERROR(forecast(model, batch), ErrorCode::shape, "(batch, 7, 2), got f32 (3, 5, 2)",
               "model.decoder.batch.marks", "model.series");
  batch = families::random_batch(context_, config, 1);
  batch.targets = {};
  Tape tape(context_, {.record = false});
  EXPECT_ERROR(model.loss(tape, batch), ErrorCode::shape, "(batch, 3, 2), got nothing", "model.batch.targets", "");
  ModelConfig unset = ModelConfig::preset("memformer-forecast");
  EXPECT_ERROR(Model(context_, unset), ErrorCode::usage, "not set", "model.series", "");
  unset.series->length = 31;
  EXPECT_ERROR(unset.check(), ErrorCode::usage, "a patch of 32 rows, but only 31", "series.patch", "");
}

TEST(SeriesConfig, TakesItsSizesFromTheData) {
  Dataset data;
  data.max_length = 96, data.second_max_length = 72, data.horizon = 24, data.channels = 7, data.marks = 4;
  SeriesConfig series;
  series.fit(data);
  EXPECT_EQ(series.length, 96);
  EXPECT_EQ(series.label, 48);
  EXPECT_EQ(series.horizon, 24);
  EXPECT_EQ(series.channels, 7);
  EXPECT_EQ(series.marks, 4);
  data.channels = 1;
  EXPECT_ERROR(series.fit(data), ErrorCode::bad_input, "1 in the data, 7 in the model", "series.channels", "0");
}

}  // namespace
}  // namespace fovea
