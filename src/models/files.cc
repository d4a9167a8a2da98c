#include "models/files.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/checksums.h"
#include "io/fields.h"
#include "io/folder.h"
#include "models/adapter.h"
#include "nn/scope.h"
#include "tensor/finite.h"

namespace fovea {
namespace {

[[noreturn]] void refuse(const Path& file, const std::string& what) {
  fail(ErrorCode::bad_input, what, file.string(), "a checkpoint of the same architecture: see config.json beside it");
}

}  // namespace

std::string not_finite(std::span<const NamedTensor> tensors) {
  for (const NamedTensor& t : tensors)
    if (!all_finite(t.tensor)) return t.name;
  return {};
}

TensorUpdate::TensorUpdate(const Path& file, std::vector<NamedTensor> targets, TensorParts parts)
    : file_(file.string()), targets_(std::move(targets)), parts_(std::move(parts)) {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const NamedTensor& target = targets_[i];
    if (!file_.has(target.name)) refuse(file, fmt::format("\"{}\" is not in the file", target.name));
    const Tensor stored = file_.tensor(target.name);
    const Shape whole = divided::whole_shape(target.tensor.shape(), cut(i));
    if (stored.shape() != whole || stored.dtype() != target.tensor.dtype())
      refuse(file, fmt::format("\"{}\" is {} {} in the file, {} {} in the model", target.name, name_of(stored.dtype()),
                               stored.shape().text(), name_of(target.tensor.dtype()), whole.text()));
  }
  if (const std::size_t all = targets_.size() + parts_.others; file_.names().size() != all)
    refuse(file, fmt::format("{} tensors in the file, {} in the model", file_.names().size(), all));
  check_checksum(file);
  for (const NamedTensor& target : targets_)
    if (!all_finite(file_.tensor(target.name)))
      fail(ErrorCode::bad_input, fmt::format("\"{}\" holds numbers that are not finite", target.name), file.string(),
           "a checkpoint from before the training left the finite numbers");
}

void TensorUpdate::apply() const {
  for (std::size_t i = 0; i < targets_.size(); ++i)
    divided::copy_part(file_.tensor(targets_[i].name), cut(i), parts_.ranks, targets_[i].tensor);
}

const WeightCut& TensorUpdate::cut(std::size_t target) const {
  static const WeightCut whole;
  return parts_.cuts.empty() ? whole : parts_.cuts[target];
}

std::vector<NamedTensor> named_tensors(const Model& model) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& p : model.parameters()) tensors.push_back({p.name, p.var.value()});
  return tensors;
}

std::vector<std::string> adopt_weights(Context& context, const Model& model, const Path& folder) {
  const Model before = load_model(context, folder.string());  // with its adapters, where it has some
  const std::vector<NamedTensor> stored = named_tensors(before);
  std::vector<std::string> missing;
  for (const NamedTensor& target : named_tensors(model)) {
    const auto same = [&](const NamedTensor& t) {
      return t.name == target.name && t.tensor.shape() == target.tensor.shape() &&
             t.tensor.dtype() == target.tensor.dtype();
    };
    const auto found = std::find_if(stored.begin(), stored.end(), same);
    if (found == stored.end())
      missing.push_back(target.name);
    else
      target.tensor.copy_from(found->tensor);
  }
  if (missing.size() == model.parameters().size())
    refuse(folder, "no tensor of it has the name and shape of one of the model");
  return missing;
}

ModelConfig read_model_config(const Path& file) {
  constexpr std::size_t kCap = 16 << 20;
  const Json json = parse_json(read_file(file, kCap), file.string());
  if (!json.is_object() || !json.contains("model"))
    fail(ErrorCode::bad_input, "no \"model\" section", file.string(), "a folder written by fovea");
  ModelConfig config;
  read_fields(config, json["model"], file.string());
  check_checksum(file);
  return config;
}

void write_model(const Model& model, const Path& folder) {
  write_safetensors((folder / kModelFile).string(), named_tensors(model), {{"format", "fovea"}});
  write_file(folder / kConfigFile, json_text(Json{{"model", write_fields(model.config())}}));
}

void save_model(const Model& model, const std::string& folder) {
  AtomicFolder out(folder);
  write_model(model, out.path());
  write_checksums(out.path());
  out.commit();
}

Model load_model(Context& context, const std::string& folder, std::optional<DType> dtype) {
  const Path path = committed_folder(folder);
  if (is_there(path / kAdapterFile)) return load_adapted(context, path, dtype);
  ModelConfig config = read_model_config(path / kConfigFile);
  config.frozen.clear();  // whatever was trained of it
  if (dtype) config.dtype = *dtype;
  const SafetensorsFile whole((path / kModelFile).string());  // named before a model is made that does not fit it
  constexpr std::size_t kSmallest = 2;                        // bytes of a number
  const std::size_t stored = MappedFile(path / kModelFile).bytes().size() / kSmallest;
  Model model = nn::within((path / kConfigFile).string(),
                           [&] { return Model(context, std::move(config), static_cast<std::int64_t>(stored)); });
  TensorUpdate(path / kModelFile, named_tensors(model)).apply();
  if (has_adapters(model.config())) return merge_adapters(context, model);
  return model;
}

}  // namespace fovea
