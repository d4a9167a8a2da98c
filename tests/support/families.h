#pragma once

#include <string>
#include <vector>

#include "data/collate.h"
#include "fovea/model.h"
#include "support/draws.h"

// Small models of every family, and batches for them.
namespace fovea::families {

inline constexpr std::int64_t kVocabulary = 11, kClasses = 3, kLength = 9;

inline std::vector<std::int32_t> random_tokens(Random& random, std::int64_t length) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(kVocabulary));
  return tokens;
}

inline Input random_input(const Context& context, Random& random, std::vector<std::int64_t> lengths) {
  std::vector<std::vector<std::int32_t>> rows;
  for (const std::int64_t length : lengths) rows.push_back(random_tokens(random, length));
  return packed_rows<std::int32_t>(context, {rows.begin(), rows.end()});
}

inline Tensor random_targets(const Context& context, Random& random, std::int64_t count, std::int64_t classes) {
  const Tensor targets = Tensor::empty(context, {count}, DType::i32);
  for (std::int64_t i = 0; i < count; ++i)
    targets.data<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(classes)));
  return targets;
}

inline Tensor random_values(const Context& context, Random& random, const Shape& shape) {
  return testing::random(context, shape, random, DType::f32);
}

// Rows, channels and marks of series.
inline Input random_series(const Context& context, Random& random, const SeriesConfig& series, std::int64_t rows) {
  return {.values = random_values(context, random, {3, rows, series.channels}),
          .marks = random_values(context, random, {3, rows, series.marks})};
}

// A batch of three examples of different lengths.
inline Batch random_batch(const Context& context, const ModelConfig& config, std::uint64_t seed) {
  Random random(seed, 31);
  Batch batch;
  batch.examples = {0, 1, 2};
  if (config.image)
    batch.input.values =
        random_values(context, random, {3, config.image->height, config.image->width, config.image->channels});
  else if (config.series)
    batch.input = random_series(context, random, *config.series, config.series->length);
  else
    batch.input = random_input(context, random, {5, 9, 2});
  if (config.task == Task::match || config.pairs || config.task == Task::image_text)
    batch.second = random_input(context, random, {4, 1, 8});
  if (config.task == Task::seq2seq) batch.second = random_input(context, random, {3, 6, 1});
  switch (config.task) {
    case Task::lm: batch.targets = random_targets(context, random, 16, kVocabulary); break;
    case Task::seq2seq: batch.targets = random_targets(context, random, 10, kVocabulary); break;
    case Task::regress: batch.targets = random_values(context, random, {3}); break;
    case Task::image_text: break;  // the texts are the targets
    case Task::forecast:
      batch.second = random_series(context, random, *config.series, config.series->label + config.series->horizon);
      batch.targets = random_values(context, random, {3, config.series->horizon, config.series->channels});
      break;
    case Task::mlm:
      batch.targets = random_targets(context, random, 16, kVocabulary);
      for (const int i : {1, 2, 5, 6, 7, 12}) batch.targets.data<std::int32_t>()[i] = -1;
      break;
    default: batch.targets = random_targets(context, random, 3, kClasses);
  }
  return batch;
}

inline void shrink_series(ModelConfig& config) {
  if (config.decoder) config.decoder->width = 12;
  SeriesConfig& series = *config.series;
  series.length = 9, series.label = 4, series.horizon = 3, series.channels = 2, series.marks = 2;
  series.patch = 4, series.stride = 2, series.memory_width = 3;
}

// A preset at the smallest size that still has every part.
inline ModelConfig small(const std::string& preset, DType dtype = DType::f64) {
  ModelConfig config = ModelConfig::preset(preset);
  const auto shrink = [&](StackConfig& stack) {
    stack.width = 8;
    stack.heads = 4;
    stack.kv_heads = stack.kv_heads > 0 ? 2 : 0;
    stack.inner = 6;
    stack.layers.resize(2, stack.layers.back());
    stack.buckets = 8;
    stack.bucket_distance = 6;
    stack.dropout = stack.inner_dropout = stack.attention_dropout = 0.0;
  };
  shrink(config);
  if (config.decoder) shrink(*config.decoder);
  if (config.image_stack) shrink(*config.image_stack);
  for (std::string& layer : config.layers)
    if (layer.starts_with("diag:block=64")) layer.replace(0, 13, "diag:block=4");
  config.vocabulary = config.task == Task::vision || config.series ? 0 : kVocabulary;
  config.classes = kClasses;
  config.classifier_hidden = config.classifier_hidden > 0 ? 7 : 0;
  config.max_length = kLength;
  config.embedding_scale = config.embedding_scale == 1.0 ? 1.0 : 2.5;
  if (config.image) config.image = ImageConfig{.height = 6, .width = 4, .channels = 2, .patch = 2};
  config.embedding_size = 5;
  if (config.image_stack) config.image_stack->width = 12;
  if (config.series) shrink_series(config);
  config.dtype = dtype;
  return config;
}

// A preset, or the transformer preset for pairs: "matcher", and "rater" of their numbers.
inline ModelConfig family(const std::string& name, DType dtype = DType::f64) {
  if (name == "matcher") {
    ModelConfig config = small("transformer", dtype);
    config.task = Task::match;
    return config;
  }
  if (name == "rater") {
    ModelConfig config = small("transformer", dtype);
    config.task = Task::regress;
    config.pairs = true;
    return config;
  }
  return small(name, dtype);
}

inline std::vector<std::string> names() {
  return {"transformer", "matcher", "rater", "gpt",  "llama",      "transnormer-t1-lm", "transnormer-t2-lm", "roberta",
          "seq2seq",     "t5",      "vit",   "clip", "clip-cross", "informer-forecast", "memformer-forecast"};
}

}  // namespace fovea::families
