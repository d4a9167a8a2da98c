#include <gtest/gtest.h>

#include "fovea/model.h"
#include "support/expect_error.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;

Dataset text(Task task) {
  Dataset data;
  data.name = "text";
  data.task = task;
  data.vocabulary = 70;
  data.max_length = 100;
  data.second_max_length = 40;
  return data;
}

TEST(Fit, TakesSizesFromTheData) {
  ModelConfig config = ModelConfig::preset("gpt");
  config.fit(text(Task::lm));
  EXPECT_EQ(config.vocabulary, 70);

  Dataset pictures;
  pictures.task = Task::vision;
  pictures.classes = 10;
  pictures.height = 28, pictures.width = 20, pictures.channels = 3;
  config = ModelConfig::preset("vit");
  config.fit(pictures);
  EXPECT_EQ(config.classes, 10);
  EXPECT_EQ(config.image->height, 28);
  EXPECT_EQ(config.image->width, 20);
  EXPECT_EQ(config.image->channels, 3);
  pictures.width = 21;
  config = ModelConfig::preset("vit");
  EXPECT_ERROR(config.fit(pictures), ErrorCode::usage, "do not cover", "image.patch", "");

  Dataset series;
  series.task = Task::forecast;
  series.max_length = 96;
  series.second_max_length = 72;
  series.horizon = 24, series.channels = 7, series.marks = 4;
  config = ModelConfig::preset("informer-forecast");
  config.fit(series);
  EXPECT_EQ(config.series->label, 48);
  EXPECT_EQ(config.series->channels, 7);
}

TEST(Fit, AClassifierOfPairsComparesThem) {
  ModelConfig config = ModelConfig::preset("transformer");
  Dataset pairs = text(Task::match);
  pairs.classes = 2;
  config.fit(pairs);
  EXPECT_EQ(config.task, Task::match);
}

TEST(Fit, AClassifierOfNumbersForetellsThem) {
  for (const bool pairs : {true, false}) {
    ModelConfig config = ModelConfig::preset("transformer");
    Dataset numbers = text(Task::regress);
    if (!pairs) numbers.second_max_length = 0;
    config.fit(numbers);
    EXPECT_EQ(config.task, Task::regress);
    EXPECT_EQ(config.pairs, pairs);
    Context context({.threads = 1});
    const Model model(context, config);
    for (const Parameter& p : model.parameters())
      if (p.name == "classifier.out.bias") {
        EXPECT_EQ(p.var.value().numel(), 1);
      }
  }
}

TEST(Fit, RefusesDataThatDoesNotFit) {
  ModelConfig config = ModelConfig::preset("gpt");
  EXPECT_ERROR(config.fit(text(Task::mlm)), ErrorCode::usage, "a model for lm, but the data \"text\" is for mlm",
               "task", "");
  config.vocabulary = 69;
  EXPECT_ERROR(config.fit(text(Task::lm)), kBad, "70 token ids, the model 69", "vocabulary", "");
  config = ModelConfig::preset("gpt");
  config.max_length = 99;
  EXPECT_ERROR(config.fit(text(Task::lm)), kBad, "sequences of 100 tokens", "max_length", "model.max_length=100");
  config = ModelConfig::preset("seq2seq");
  config.decoder_max_length = 39;
  EXPECT_ERROR(config.fit(text(Task::seq2seq)), kBad, "targets of 40 tokens", "decoder_max_length", "");
}

}  // namespace
}  // namespace fovea
