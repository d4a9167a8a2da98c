#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/pretrained.h"
#include "fovea/safetensors.h"
#include "io/json.h"
#include "support/drawn_parameters.h"
#include "support/families.h"
#include "support/temporary_folder.h"

// Small models as other libraries would write them.
namespace fovea::pretrained_test {

// Of every format: what it has that others have not.
inline ModelConfig small(const std::string& name) {
  ModelConfig config = families::small(name.starts_with("bert") || name.starts_with("encoder") ? "roberta"
                                       : name == "gpt2"                                        ? "gpt"
                                                                                               : name,
                                       DType::f32);
  if (name.starts_with("bert") || name.starts_with("encoder")) config.types = 2;
  if (name == "roberta") {
    config.types = 1;
    config.position_offset = 2;
  }
  if (name == "bert-classes") config.task = Task::classify;
  if (name.starts_with("encoder")) config.task = Task::encode;
  if (name == "bert-classes" || name.starts_with("encoder")) {
    config.head_bias = config.head_transform = false;
    config.classifier_hidden = name == "encoder-mean" ? 0 : config.width;
    config.classifier_activation = Activation::tanh;
    if (name == "encoder-mean") config.pooling = Pooling::mean;
    config.unit_features = name == "encoder-mean";
  }
  if (name == "t5") {
    config.head_scale = 1.0 / std::sqrt(static_cast<double>(config.width));
    config.head_width = config.decoder->head_width = 3;
  }
  if (name == "vit") config.image = ImageConfig{.height = 6, .width = 4, .channels = 3, .patch = 2};
  return config;
}

// Parameters that are all different, also those that start as zeros and ones.
inline void draw_all(const Model& model, std::uint64_t seed) {
  Random draws(seed, 5);
  testing::draw(model, draws, 0.3);
}

inline Model drawn(Context& context, const ModelConfig& config, std::uint64_t seed = 1) {
  Model model(context, config);
  draw_all(model, seed);
  return model;
}

// The tensors of a file, copied.
inline std::vector<NamedTensor> tensors_of(const Context& context, const std::filesystem::path& file) {
  const SafetensorsFile stored(file.string());
  std::vector<NamedTensor> tensors;
  for (const std::string& name : stored.names())
    tensors.push_back({name, stored.tensor(name).clone(context, Lifetime::persistent)});
  return tensors;
}

inline std::vector<float> output(Context& context, const Model& model, std::uint64_t seed = 9) {
  Tape tape(context, {.record = false});
  return model.forward(tape, families::random_batch(context, model.config(), seed)).value().to_vector<float>();
}

// Changes fields of a config.json; null removes one.
inline void change(const std::filesystem::path& file, const std::map<std::string, Json>& fields) {
  Json json = parse_json(get(file), file.string());
  for (const auto& [name, value] : fields) {
    if (value.is_null())
      json.erase(name);
    else
      json[name] = value;
  }
  put(file, json.dump());
}

}  // namespace fovea::pretrained_test
