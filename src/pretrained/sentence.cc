#include "pretrained/sentence.h"

#include <fmt/format.h>

#include "io/json.h"

namespace fovea::pretrained {
namespace {

constexpr const char* kModules = "modules.json";
constexpr const char* kEncoderSettings = "sentence_bert_config.json";
constexpr const char* kPoolingFolder = "1_Pooling";
constexpr const char* kConfig = "config.json";
constexpr std::size_t kCap = std::size_t{1} << 20;

struct PoolingName {
  std::string_view name;
  Pooling pooling;
};
constexpr PoolingName kPoolings[] = {{"pooling_mode_cls_token", Pooling::first},
                                     {"pooling_mode_mean_tokens", Pooling::mean},
                                     {"pooling_mode_lasttoken", Pooling::last}};

Json read(const Path& file) { return parse_json(read_file(file, kCap), file.string()); }

[[noreturn]] void refuse(ErrorCode code, const std::string& what, const Path& file, std::string hint = {}) {
  fail(code, what, file.string(), std::move(hint));
}

Pooling read_pooling(const Path& file) {
  const Json json = read(file);
  std::optional<Pooling> pooling;
  std::vector<std::string> chosen;
  const auto choose = [&](const std::string& name) {
    chosen.push_back(name);
    for (const PoolingName& known : kPoolings)
      if (known.name == name) pooling = known.pooling;
  };
  for (const auto& [name, value] : json.items())
    if (name.starts_with("pooling_mode_") && value == true) choose(name);
  if (json.contains("pooling_mode") && json["pooling_mode"].is_string()) {
    const std::string mode = json["pooling_mode"].get<std::string>();
    choose("pooling_mode_" + (mode == "mean" ? "mean_tokens" : mode == "cls" ? "cls_token" : mode));
  }
  if (chosen.size() != 1 || !pooling)
    refuse(ErrorCode::unsupported,
           chosen.empty() ? "no way of pooling is chosen"
                          : fmt::format("pooling by \"{}\" is not built", fmt::join(chosen, "\" and \"")),
           file, "one of cls_token, mean_tokens and lasttoken; or import with --pooling");
  return *pooling;
}

std::int64_t read_max_length(const Path& file) {
  if (!is_there(file)) return 0;
  const Json json = read(file);
  const auto found = json.find("max_seq_length");
  return found != json.end() && found->is_number_unsigned() ? found->get<std::int64_t>() : 0;
}

std::string text_of(const Json& module, const char* name, const Path& file) {
  if (!module.is_object() || !module.contains(name) || !module[name].is_string())
    refuse(ErrorCode::bad_input, fmt::format("a module without \"{}\"", name), file);
  return module[name].get<std::string>();
}

// Folders of modules lie inside the model's.
Path place_of(const Json& module, const Path& folder, const Path& file) {
  const Path path = Path(text_of(module, "path", file)).lexically_normal();
  if (path.is_absolute() || path.string().starts_with(".."))
    refuse(ErrorCode::bad_input, fmt::format("a module outside the folder: \"{}\"", path.string()), file);
  return folder / path;
}

}  // namespace

void Sentence::apply(ModelConfig& config) const {
  config.pooling = pooling;
  config.unit_features = unit;
  config.classifier_hidden = 0;
  if (max_length > 0) config.max_length = std::min(config.max_length, max_length);
}

std::optional<Sentence> read_sentence(const Path& folder) {
  const Path file = folder / kModules;
  if (!is_there(file)) return {};
  Sentence sentence;
  bool pooled = false;
  for (const Json& module : read(file)) {
    const std::string type = text_of(module, "type", file);
    const Path place = place_of(module, folder, file);
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer" && sentence.encoder.empty()) {
      sentence.encoder = place;
      sentence.max_length = read_max_length(place / kEncoderSettings);
    } else if (kind == "Pooling" && !pooled) {
      sentence.pooling = read_pooling(place / kConfig);
      pooled = true;
    } else if (kind == "Normalize") {
      sentence.unit = true;
    } else {
      refuse(ErrorCode::unsupported, fmt::format("the module \"{}\" is not built", type), file,
             "models of Transformer, Pooling and Normalize");
    }
  }
  if (sentence.encoder.empty() || !pooled) refuse(ErrorCode::unsupported, "no Transformer followed by a Pooling", file);
  return sentence;
}

void write_sentence(const ModelConfig& config, const Path& folder) {
  Json modules = Json::array();
  const auto add = [&](const char* path, const char* type) {
    const std::string number = std::to_string(modules.size());
    modules.push_back({{"idx", modules.size()},
                       {"name", number},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + type}});
    make_folder(folder / path);
  };
  add("", "Transformer");
  add(kPoolingFolder, "Pooling");
  if (config.unit_features) add("2_Normalize", "Normalize");
  write_file(folder / kModules, json_text(modules));
  Json pooling = {{"word_embedding_dimension", config.width}};
  for (const PoolingName& known : kPoolings) pooling[std::string(known.name)] = known.pooling == config.pooling;
  write_file(folder / kPoolingFolder / kConfig, json_text(pooling));
  write_file(folder / kEncoderSettings, json_text({{"max_seq_length", config.max_length}, {"do_lower_case", false}}));
}

}  // namespace fovea::pretrained
