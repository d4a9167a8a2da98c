#include <fmt/format.h>

#include <cmath>

#include "core/nearest.h"
#include "io/fields.h"
#include "io/folder.h"
#include "models/files.h"
#include "pretrained/import.h"
#include "pretrained/mapping.h"
#include "pretrained/sentence.h"

namespace fovea::pretrained {
namespace {

struct Target {
  const Architecture* architecture;
  const Variant* variant;
};

// Sizes that stand for others are written out.
void state_sizes(StackConfig& stack) {
  stack.kv_heads = stack.key_heads();
  if (stack.head_width == 0) stack.head_width = stack.width / stack.heads;
}

void settle_stack(StackConfig& stack) {
  const StackConfig usual;
  state_sizes(stack);
  if (stack.attention_scale == 0.0) stack.attention_scale = 1.0 / std::sqrt(static_cast<double>(stack.head_width));
  if (stack.positions != Positions::rope) {
    stack.rope_base = usual.rope_base;
    stack.rope_pairs = usual.rope_pairs;
    stack.rope_stretch.reset();
  }
  if (stack.positions != Positions::t5) {
    stack.buckets = usual.buckets;
    stack.bucket_distance = usual.bucket_distance;
  }
  stack.init_deviation = stack.dropout = stack.inner_dropout = stack.attention_dropout = 0.0;
}

// The settings that decide what a model computes, each in one way of saying it: what two configs must have in common.
Json settled(ModelConfig config) {
  const ModelConfig usual;
  settle_stack(config);
  if (config.decoder) settle_stack(*config.decoder);
  const bool language = config.task == Task::lm || config.task == Task::mlm || config.task == Task::seq2seq;
  const bool classes = config.task == Task::classify || config.task == Task::vision;
  if (!classes) config.classes = 0;
  if (language) config.pooling = usual.pooling;
  if (language || config.classifier_hidden == 0) config.classifier_activation = usual.classifier_activation;
  if (language) config.classifier_hidden = 0;
  if (!language) config.tied = true;
  if (config.task != Task::encode) config.unit_features = false;
  if (config.task == Task::vision || config.image) config.max_length = config.image->patches();
  config.embedding_size = usual.embedding_size;
  config.dtype = usual.dtype;
  config.frozen.clear();
  config.checkpointing = false;
  return write_fields(config);
}

// The first setting in which two configs differ: "layers[0] = norm"; empty when there is none.
std::string difference(const Json& have, const Json& can, const std::string& path = {}) {
  if (have == can) return {};
  if (have.is_object() && can.is_object()) {
    for (const auto& [name, value] : have.items()) {
      const std::string inner = path.empty() ? name : fmt::format("{}.{}", path, name);
      const std::string found = difference(value, can.contains(name) ? can[name] : Json(), inner);
      if (!found.empty()) return found;
    }
    return path;
  }
  if (have.is_array() && can.is_array() && have.size() == can.size())
    for (std::size_t i = 0; i < have.size(); ++i)
      if (have[i] != can[i]) return difference(have[i], can[i], fmt::format("{}[{}]", path, i));
  return fmt::format("{} = {}", path, have.dump());
}

// As a file of this kind would say it.
Json their_config(const ModelConfig& config, const Target& target) {
  ConfigFields fields;
  fields.write("architectures", {target.variant->name});
  fields.write("model_type", target.architecture->format);
  ModelConfig copy = config;
  state_sizes(copy);
  if (copy.decoder) state_sizes(*copy.decoder);
  target.architecture->fields(fields, copy);
  if (target.variant->fields != nullptr) target.variant->fields(fields, copy);
  fields.write("torch_dtype", "float32");
  return fields.take();
}

// Encoders without a pooler are described by sentence-transformers.
bool is_sentence(const ModelConfig& config) {
  return config.task == Task::encode && !config.image && config.classifier_hidden == 0;
}

// What is lost when the config goes through a file of this kind and comes back; empty: nothing.
std::string lost(ModelConfig config, const Target& target) {
  if (config.positions == Positions::rope) config.rope_pairs = RopePairs::halves;  // weights are reordered to fit
  try {
    ConfigFields fields(their_config(config, target), "config.json");
    ModelConfig back = read_config(fields, *target.architecture, *target.variant);
    if (is_sentence(config)) Sentence{.pooling = config.pooling, .unit = config.unit_features}.apply(back);
    return difference(settled(config), settled(back));
  } catch (const Error& error) {
    return error.message();
  }
}

Target choose(const ModelConfig& config, const std::string& format) {
  if (!format.empty()) place_of_name(format, model_formats(), "format", "format");
  std::vector<std::string> reasons;
  for (const Architecture* architecture : architectures())
    for (const Variant& variant : architecture->variants) {
      if (variant.task != config.task || (!format.empty() && architecture->format != format)) continue;
      const std::string gone = lost(config, {architecture, &variant});
      if (gone.empty()) return {architecture, &variant};
      reasons.push_back(fmt::format("{} has no {}", variant.name, gone));
    }
  if (reasons.empty())
    reasons.push_back(fmt::format("{} has no models for {}", format.empty() ? "none" : format,
                                  task_names()[static_cast<std::size_t>(config.task)]));
  fail(ErrorCode::unsupported, fmt::format("other libraries have no such model: {}", fmt::join(reasons, "; ")), "model",
       "save it as it is");
}

std::vector<NamedTensor> their_tensors(const Context& context, const Model& model, const Target& target) {
  const Naming naming{*target.architecture, *target.variant, target.variant->prefixed,
                      model.config().positions == Positions::rope && model.config().rope_pairs == RopePairs::adjacent};
  std::vector<NamedTensor> tensors;
  for (const MappedTensor& mapped : mapped_tensors(model, naming)) {
    const bool plain = mapped.view.shape() == mapped.shape && mapped.view.dtype() == DType::f32;
    tensors.push_back(
        {mapped.names[0],
         plain ? mapped.view : mapped.view.to(context, DType::f32).contiguous(context).reshape(mapped.shape)});
  }
  return tensors;
}

void write_model(const Model& model, const std::string& folder, const ExportOptions& options) {
  const Target target = choose(model.config(), options.format);
  const Context context({.threads = 1});
  AtomicFolder out(folder);
  write_file(out.path() / kConfigFile, json_text(their_config(model.config(), target)));
  write_safetensors((out.path() / kModelFile).string(), their_tensors(context, model, target), {{"format", "pt"}});
  if (is_sentence(model.config())) write_sentence(model.config(), out.path());
  if (options.tokenizer != nullptr) options.tokenizer->save(out.path().string());
  out.commit();
}

}  // namespace
}  // namespace fovea::pretrained

namespace fovea {

void export_model(const Model& model, const std::string& folder, const ExportOptions& options) {
  pretrained::write_model(model, folder, options);
}

}  // namespace fovea
