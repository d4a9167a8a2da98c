#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/rng.h"
#include "data/labelled.h"
#include "fovea/model.h"

namespace fovea::tiny {

inline constexpr int kVocabulary = 16, kClasses = 10;

// Sequences of 3 to `longest` tokens; the label is the first token modulo the number of classes, so that there is
// something to learn.
inline std::vector<Example> examples(std::uint64_t seed, std::size_t count, std::uint32_t longest = 90) {
  std::vector<Example> out(count);
  Random random(seed, 77);
  for (Example& e : out) {
    e.tokens.resize(3 + random.below(longest - 2));
    for (auto& token : e.tokens) token = static_cast<std::uint8_t>(1 + random.below(kVocabulary - 1));
    e.label = e.tokens[0] % kClasses;
  }
  return out;
}

inline Dataset dataset(std::uint64_t seed, std::size_t train, std::size_t validation) {
  LabelledData data{.name = "tiny", .classes = kClasses, .vocabulary = kVocabulary, .max_length = 90};
  data.train = examples(seed, train);
  data.validation = examples(seed + 1, validation);
  return dataset_of(std::move(data));
}

// A preset for these sequences.
inline ModelConfig config(const std::string& preset) {
  ModelConfig config = ModelConfig::preset(preset);
  config.vocabulary = kVocabulary;
  config.classes = kClasses;
  config.max_length = 90;
  return config;
}

inline ModelConfig without_dropout(ModelConfig config) {
  config.dropout = config.inner_dropout = config.attention_dropout = 0.0;
  return config;
}

}  // namespace fovea::tiny
