#include "models/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "io/checksums.h"
#include "io/fields.h"
#include "io/folder.h"
#include "models/files.h"
#include "nn/layers.h"

namespace fovea {
namespace {

// config.json of an adapter.
struct AdapterConfig {
  std::string base;
  ModelConfig model;

  void fields(FieldVisitor& v) {
    v("base", base, "folder of the model that the adapter was trained on");
    v("model", model, "that model, with its adapters");
  }
};

std::map<std::string, Var> by_name(const Model& model) {
  std::map<std::string, Var> vars;
  for (const Parameter& p : model.parameters()) vars.emplace(p.name, p.var);
  return vars;
}

double scale_at(const ModelConfig& config, const std::string& name) {
  const bool second = name.starts_with("decoder.") && config.decoder;
  return second ? config.decoder->lora_scale : config.lora_scale;
}

bool is_trained(const ModelConfig& config, const std::string& name) {
  if (name.ends_with(nn::kLoraIn) || name.ends_with(nn::kLoraOut)) return true;
  return std::none_of(config.frozen.begin(), config.frozen.end(),
                      [&](const std::string& part) { return nn::is_part_of(name, part); });
}

// Tensors of a file by name into a model; gives the names of those that the file has not.
std::vector<std::string> fill(const Model& model, const Path& file) {
  const SafetensorsFile stored(file.string());
  check_checksum(file);
  std::vector<std::string> missing;
  for (const NamedTensor& target : named_tensors(model)) {
    const bool there = stored.has(target.name) && stored.tensor(target.name).shape() == target.tensor.shape();
    if (there)
      target.tensor.copy_from(stored.tensor(target.name));
    else
      missing.push_back(target.name);
  }
  return missing;
}

}  // namespace

bool has_adapters(const ModelConfig& config) {
  return config.lora > 0 || (config.decoder && config.decoder->lora > 0) ||
         (config.image_stack && config.image_stack->lora > 0);
}

void remove_adapters(ModelConfig& config) {
  config.frozen.clear();
  for (StackConfig* stack : {static_cast<StackConfig*>(&config), config.decoder ? &*config.decoder : nullptr,
                             config.image_stack ? &*config.image_stack : nullptr})
    if (stack != nullptr) stack->lora = 0;
}

Model merge_adapters(Context& context, const Model& model) {
  ModelConfig config = model.config();
  remove_adapters(config);
  Model merged(context, std::move(config));
  const std::map<std::string, Var> from = by_name(model);
  Tape tape(context, {.record = false});
  for (const Parameter& p : merged.parameters()) {
    Var value = from.at(p.name);
    const std::string layer = p.name.substr(0, p.name.rfind('.'));
    const auto in = from.find(layer + "." + nn::kLoraIn), out = from.find(layer + "." + nn::kLoraOut);
    if (p.name == layer + ".weight" && in != from.end())
      value = nn::adapted(tape, value, {in->second, out->second, scale_at(model.config(), p.name)});
    p.var.value().copy_from(value.value());
  }
  return merged;
}

void save_adapter(const Path& checkpoint, const Path& base, const std::string& folder) {
  const SafetensorsFile stored((checkpoint / kModelFile).string());
  const AdapterConfig config{std::filesystem::absolute(base).lexically_normal().string(),
                             read_model_config(checkpoint / kConfigFile)};
  std::vector<NamedTensor> trained;
  for (const std::string& name : stored.names())
    if (is_trained(config.model, name)) trained.push_back({name, stored.tensor(name)});
  AtomicFolder out(folder);
  write_safetensors((out.path() / kAdapterFile).string(), trained, {{"format", "fovea"}});
  write_file(out.path() / kConfigFile, json_text(write_fields(config)));
  if (const Path tokenizer = checkpoint / "tokenizer.json"; is_there(tokenizer))
    std::filesystem::copy_file(tokenizer, out.path() / "tokenizer.json");
  write_checksums(out.path());
  out.commit();
}

ModelConfig stored_config(const Path& folder) {
  if (is_there(folder / kAdapterFile)) return load_fields<AdapterConfig>(folder / kConfigFile).model;
  return read_model_config(folder / kConfigFile);
}

Model load_adapted(Context& context, const Path& folder, std::optional<DType> dtype) {
  AdapterConfig config = load_fields<AdapterConfig>(folder / kConfigFile);
  if (dtype) config.model.dtype = *dtype;
  if (!is_there(config.base))
    fail(ErrorCode::bad_input, "no such file or folder: the model that this adapter was trained on", config.base,
         fmt::format("its folder at that place, or its new one as \"base\" in {}", (folder / kConfigFile).string()));
  config.model.frozen.clear();
  const Model model(context, config.model);
  const Model base = load_model(context, config.base);
  const std::map<std::string, Var> weights = by_name(base);
  for (const std::string& name : fill(model, folder / kAdapterFile)) {
    const auto found = weights.find(name);
    const Var target = by_name(model).at(name);
    if (found == weights.end() || found->second.shape() != target.shape())
      fail(ErrorCode::bad_input, fmt::format("\"{}\" is neither in the adapter nor in the model below it", name),
           config.base, "the model that the adapter was trained on");
    target.value().copy_from(found->second.value());
  }
  return merge_adapters(context, model);
}

}  // namespace fovea
