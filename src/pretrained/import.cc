#include "pretrained/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/nearest.h"
#include "io/fields.h"
#include "io/missing.h"
#include "models/files.h"
#include "pretrained/mapping.h"
#include "pretrained/sentence.h"
#include "pretrained/weights.h"

namespace fovea::pretrained {
namespace {

constexpr std::size_t kConfigCap = std::size_t{16} << 20;
constexpr const Architecture* kArchitectures[] = {&kGpt2, &kLlama, &kBert, &kRoberta, &kT5, &kVit};

struct Chosen {
  const Architecture* architecture;
  const Variant* variant;
};

Chosen choose(const Json& json, const Path& file) {
  const auto named = json.find("architectures");
  if (named == json.end() || !named->is_array() || named->empty() || !(*named)[0].is_string())
    fail(ErrorCode::bad_input, "\"architectures\" does not say which kind of model this is", file.string(),
         json.contains("model") ? "this is a folder of fovea: it needs no import" : "for example [\"BertModel\"]");
  const std::string name = (*named)[0].get<std::string>();
  for (const Architecture* architecture : kArchitectures)
    for (const Variant& variant : architecture->variants)
      if (variant.name == name) return {architecture, &variant};
  const std::vector<std::string_view> known = model_architectures();
  fail(ErrorCode::unsupported, fmt::format("models of the kind \"{}\" are not built", name.substr(0, 80)),
       file.string(), name_hint(name, known));
}

bool same_values(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// Files of models without a head of their own hold the names as they are; others may hold them either way.
bool is_prefixed(const Weights& weights, const Architecture& architecture) {
  if (architecture.prefix.empty()) return false;
  const std::vector<std::string> names = weights.names();
  return std::any_of(names.begin(), names.end(),
                     [&](const auto& name) { return name.starts_with(architecture.prefix); });
}

// A head that is there and is not the embedding stays, whatever the config says: transformers does the same.
void untie(ModelConfig& config, const Weights& weights, const Naming& naming) {
  const std::string head(naming.variant.head);
  const std::string tokens =
      fmt::format("{}{}", naming.prefixed ? naming.architecture.prefix : "", naming.architecture.tokens);
  if (config.tied && !head.empty() && weights.has(head) && weights.has(tokens))
    config.tied = same_values(weights.tensor(head), weights.tensor(tokens));
}

std::int64_t numbers_in(const Weights& weights) {
  std::int64_t stored = 0;
  for (const std::string& name : weights.names()) stored += weights.tensor(name).numel();
  return stored;
}

// A config of far larger sizes than the files is refused before memory is taken for it.
void refuse_larger(const ModelConfig& config, const Weights& weights, std::int64_t stored) {
  const std::int64_t layers = std::ssize(config.layers), width = config.width;
  const std::int64_t heads = config.heads * std::max(config.head_width, width / config.heads);
  const std::int64_t least = width * std::max({config.vocabulary, layers * config.inner, layers * heads,
                                               config.positions == Positions::learned ? config.max_length : 0});
  if (least > stored && !config.image)
    fail(ErrorCode::bad_input,
         fmt::format("config.json describes a model of at least {} numbers, the files hold {}", least, stored),
         weights.file_of(""), "weights and config.json of the same model");
}

const std::string* stored_name(const MappedTensor& mapped, const Weights& weights) {
  for (const std::string& name : mapped.names)
    if (weights.has(name)) return &name;
  return nullptr;
}

// Their tensor as the model takes it. A table of positions may be longer than the model reads.
Tensor fitted(const MappedTensor& mapped, const std::string& name, const Weights& weights) {
  Tensor tensor = weights.tensor(name);
  const Shape& wanted = mapped.shape;
  if (name.ends_with("position_embeddings.weight") && tensor.rank() == 2 && tensor.dim(1) == wanted.dim(1) &&
      tensor.dim(0) > wanted.dim(0))
    tensor = tensor.slice(0, 0, wanted.dim(0));
  if (tensor.shape() != wanted)
    fail(ErrorCode::bad_input,
         fmt::format("\"{}\" is {}, but config.json makes it {}", name, tensor.shape().text(), wanted.text()),
         weights.file_of(name), "weights and config.json of the same model");
  if (!is_float(tensor.dtype()))
    fail(ErrorCode::unsupported, fmt::format("\"{}\" is of type {}", name, name_of(tensor.dtype())),
         weights.file_of(name), "weights that are not quantised");
  return tensor;
}

void refuse_missing(const std::vector<MappedTensor>& tensors, const Weights& weights) {
  std::vector<std::string> missing;
  for (const MappedTensor& mapped : tensors)
    if (stored_name(mapped, weights) == nullptr) missing.push_back(mapped.names[0]);
  if (missing.empty()) return;
  const std::vector<std::string> names = weights.names();
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view near = nearest_name(missing[0], candidates);
  fail(ErrorCode::bad_input,
       missing.size() == 1 ? fmt::format("\"{}\" is missing", missing[0])
                           : fmt::format("{} tensors are missing, the first is \"{}\"", missing.size(), missing[0]),
       weights.file_of(""), near.empty() ? "weights and config.json of the same model" : fmt::format("\"{}\"?", near));
}

// What the model does not take: refused, or left out when such files usually hold it.
std::vector<std::string> spare_tensors(const std::vector<MappedTensor>& tensors, const Weights& weights,
                                       const Architecture& architecture) {
  std::vector<std::string> taken, left_out;
  for (const MappedTensor& mapped : tensors) taken.insert(taken.end(), mapped.names.begin(), mapped.names.end());
  std::sort(taken.begin(), taken.end());
  for (const std::string& name : weights.names()) {
    if (std::binary_search(taken.begin(), taken.end(), name)) continue;
    const bool spare = std::any_of(architecture.spare.begin(), architecture.spare.end(),
                                   [&](std::string_view pattern) { return fits(name, pattern); });
    if (!spare)
      fail(ErrorCode::unsupported, fmt::format("\"{}\" has no place in a model of this config", name),
           weights.file_of(name), "weights and config.json of the same model");
    left_out.push_back(name);
  }
  return left_out;
}

std::vector<std::string> fill(const Model& model, const Weights& weights, const Naming& naming) {
  const std::vector<MappedTensor> tensors = mapped_tensors(model, naming);
  refuse_missing(tensors, weights);
  std::vector<Tensor> stored;
  for (const MappedTensor& mapped : tensors) stored.push_back(fitted(mapped, *stored_name(mapped, weights), weights));
  std::vector<std::string> left_out = spare_tensors(tensors, weights, naming.architecture);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].view.copy_from(stored[i].reshape(tensors[i].view.shape()));
  return left_out;
}

void pool(ModelConfig& config, const std::optional<Sentence>& sentence, const ImportOptions& options,
          const Path& file) {
  if ((sentence || options.pooling) && (config.task != Task::encode || config.image))
    fail(ErrorCode::unsupported, "only encoders of text without a head are pooled", file.string(),
         "a model such as BertModel");
  Sentence wanted = sentence.value_or(Sentence{});
  if (options.pooling) wanted.pooling = *options.pooling;
  if (sentence || options.pooling) wanted.apply(config);
}

Imported import_folder(Context& context, const Path& folder, const std::optional<Sentence>& sentence,
                       const ImportOptions& options) {
  const Path file = folder / kConfigFile;
  const Json json = parse_json(read_file(file, kConfigCap), file.string());
  if (!json.is_object()) fail(ErrorCode::bad_input, "not a JSON object", file.string());
  const auto [architecture, variant] = choose(json, file);
  ConfigFields fields(json, file.string());
  ModelConfig config = read_config(fields, *architecture, *variant);
  fields.refuse_unknown(options.ignore);
  pool(config, sentence, options, file);
  const Weights weights(folder);
  const Naming naming{*architecture, *variant, is_prefixed(weights, *architecture)};
  untie(config, weights, naming);
  const std::int64_t stored = numbers_in(weights);
  refuse_larger(config, weights, stored);
  constexpr std::int64_t kSpare = 1 << 20;  // tied weights are stored once, and what the files lack is named below
  Imported out{.model = Model(context, config, 2 * stored + kSpare), .architecture = std::string(variant->name)};
  out.left_out = fill(out.model, weights, naming);
  out.tokenizer = load_tokenizer(out.model, folder.string());
  return out;
}

// A folder without config.json may be one of llama2.c: a model file, and a tokeniser that begins with "tok".
std::optional<Path> llama2c_file(const Path& path) {
  if (is_file(path)) return path;
  if (is_there(path / kConfigFile)) return {};
  std::vector<Path> files;
  for (const Path& entry : entries_of(path))
    if (entry.extension() == ".bin" && !entry.filename().string().starts_with("tok")) files.push_back(entry);
  if (files.size() == 1 && files[0].filename() != "pytorch_model.bin") return files[0];
  return {};
}

}  // namespace

std::span<const Architecture* const> architectures() { return kArchitectures; }

ModelConfig read_config(ConfigFields& fields, const Architecture& architecture, const Variant& variant) {
  ModelConfig config = architecture.frame();
  config.task = variant.task;
  architecture.fields(fields, config);
  if (variant.fields != nullptr) variant.fields(fields, config);
  ModelConfig checked;
  read_fields(checked, write_fields(config), fields.where());  // the ranges of our own settings
  return checked;
}

}  // namespace fovea::pretrained

namespace fovea {

std::vector<std::string_view> model_architectures() {
  std::vector<std::string_view> names;
  for (const pretrained::Architecture* architecture : pretrained::architectures())
    for (const pretrained::Variant& variant : architecture->variants) names.push_back(variant.name);
  return names;
}

std::vector<std::string_view> model_formats() {
  std::vector<std::string_view> names;
  for (const pretrained::Architecture* architecture : pretrained::architectures())
    names.push_back(architecture->format);
  return names;
}

Imported import_model(Context& context, const std::string& path, const ImportOptions& options) {
  if (!is_there(path)) throw NoSuchFile("no such folder", path, missing_hint(path));
  if (const auto file = pretrained::llama2c_file(path)) return pretrained::import_llama2c(context, *file);
  const auto sentence = pretrained::read_sentence(path);
  return pretrained::import_folder(context, sentence ? sentence->encoder : Path(path), sentence, options);
}

}  // namespace fovea
