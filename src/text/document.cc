#include "text/document.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "fovea/error.h"

namespace fovea::text {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& where) { fail(ErrorCode::bad_input, what, where); }

std::int32_t id_of(const JsonMap& value, const std::string& token, const std::string& where) {
  if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() >= 0x1p31)
    refuse(fmt::format("the id of \"{}\" is not a whole number", token), where);
  return value.get<std::int32_t>();
}

void read_scored(const JsonMap& list, ModelData& data, const std::string& where) {
  for (const JsonMap& entry : list) {
    const bool good = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    const auto id = static_cast<std::int32_t>(data.scores.size());
    if (!good || !std::isfinite(entry[1].get<double>()))
      refuse("expected [\"token\", score]", fmt::format("{}[{}]", where, id));
    data.vocabulary.add(entry[0].get<std::string>(), id);
    data.scores.push_back(entry[1].get<double>());
  }
}

void read_merges(const JsonMap& merges, ModelData& data, const std::string& where) {
  if (!merges.is_array()) refuse("expected a list", where);
  for (const JsonMap& entry : merges) {
    const auto rank = data.merges.size();
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      data.merges.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
      continue;
    }
    const std::string pair = entry.is_string() ? entry.get<std::string>() : "";
    const std::size_t space = pair.find(' ');
    if (space == std::string::npos || pair.find(' ', space + 1) != std::string::npos)
      refuse("expected \"left right\" or [\"left\", \"right\"]", fmt::format("{}[{}]", where, rank));
    data.merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
  }
}

std::string quoted(const std::string& text) {
  return JsonMap(text).dump(-1, ' ', false, JsonMap::error_handler_t::replace);
}

// The vocabulary by id: an object of the JSON library would sort it by name.
std::string vocabulary_text(const ModelData& data) {
  std::string out;
  const bool scored = !data.scores.empty();
  for (std::int64_t id = 0; id < data.vocabulary.size(); ++id) {
    const std::string* token = data.vocabulary.token(id);
    if (token == nullptr) continue;
    out += out.empty() ? "\n" : ",\n";
    if (scored)
      out += fmt::format("      [{}, {}]", quoted(*token), JsonMap(data.scores[static_cast<std::size_t>(id)]).dump());
    else
      out += fmt::format("      {}: {}", quoted(*token), id);
  }
  return (scored ? "[" : "{") + out + (out.empty() ? "" : "\n    ") + (scored ? "]" : "}");
}

std::string merges_text(const ModelData& data) {
  std::string out;
  for (const auto& [left, right] : data.merges) {
    out += out.empty() ? "\n" : ",\n";
    const bool plain = left.find(' ') == std::string::npos && right.find(' ') == std::string::npos;
    out += plain ? fmt::format("      {}", quoted(fmt::format("{} {}", left, right)))
                 : fmt::format("      [{}, {}]", quoted(left), quoted(right));
  }
  return "[" + out + (out.empty() ? "]" : "\n    ]");
}

constexpr const char* kSections[] = {"truncation",    "padding",        "added_tokens", "normalizer",
                                     "pre_tokenizer", "post_processor", "decoder"};

}  // namespace

void read_vocabulary(const JsonMap& vocab, ModelData& data, const std::string& where) {
  if (vocab.is_array()) return read_scored(vocab, data, where);
  if (!vocab.is_object()) refuse("expected an object of tokens and ids", where);
  for (const auto& [token, id] : vocab.items()) data.vocabulary.add(token, id_of(id, token, where));
}

Document parse_document(std::string_view json, const std::string& where) {
  Document document;
  document.where = where;
  document.settings = parse_json_map(json, where);
  Settings top(document.settings, where);
  Settings model = top.inside("model");
  const std::string type = model_type(model);
  read_vocabulary(model.need("vocab"), document.data, model.where() + ".vocab");
  if (type == "BPE") read_merges(model.need("merges"), document.data, model.where() + ".merges");
  JsonMap& kept = document.settings["model"];
  kept.erase("vocab");
  kept.erase("merges");
  kept["type"] = type;
  top.ignore({"version"});
  for (const char* section : kSections) top.ignore({section});
  top.finish();
  return document;
}

std::string document_text(const Document& document) {
  std::string out = "{\n  \"version\": \"1.0\",\n";
  const auto text_of = [](const JsonMap& value) {
    std::string text = value.dump(2, ' ', false, JsonMap::error_handler_t::replace);
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.insert(at + 1, "  ");
    return text;
  };
  for (const char* section : kSections) {
    const auto found = document.settings.find(section);
    out += fmt::format("  \"{}\": {},\n", section, found == document.settings.end() ? "null" : text_of(*found));
  }
  out += "  \"model\": {\n";
  for (const auto& [key, value] : document.settings.at("model").items())
    out += fmt::format("    \"{}\": {},\n", key, value.dump());
  out += "    \"vocab\": " + vocabulary_text(document.data);
  if (document.settings.at("model").at("type") == "BPE") out += ",\n    \"merges\": " + merges_text(document.data);
  return out + "\n  }\n}\n";
}

std::string config_text(const Document& document) {
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [role, token] : document.roles) config[role] = token;
  return json_text(config);
}

JsonMap empty_settings(const std::string& model_type) {
  JsonMap settings;
  for (const char* section : kSections) settings[section] = nullptr;
  settings["added_tokens"] = JsonMap::array();
  settings["model"] = {{"type", model_type}};
  return settings;
}

JsonMap added_token_json(const AddedToken& token) {
  return {{"id", token.id},
          {"content", token.content},
          {"single_word", token.single_word},
          {"lstrip", token.strip_left},
          {"rstrip", token.strip_right},
          {"normalized", token.normalized},
          {"special", token.special}};
}

JsonMap template_json(const std::string& single, const std::string& pair, const Vocabulary& vocabulary) {
  JsonMap special = JsonMap::object();
  const auto parts = [&](const std::string& text) {
    JsonMap out = JsonMap::array();
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const std::size_t colon = word.rfind(':');
      const int type = colon == std::string::npos ? 0 : std::stoi(word.substr(colon + 1));
      const std::string name = word.substr(0, colon);
      const bool sequence = name.starts_with('$');
      out.push_back(
          {{sequence ? "Sequence" : "SpecialToken", {{"id", sequence ? name.substr(1) : name}, {"type_id", type}}}});
      if (!sequence) special[name] = {{"id", name}, {"ids", {vocabulary.find(name).value()}}, {"tokens", {name}}};
    }
    return out;
  };
  JsonMap json{{"type", "TemplateProcessing"}, {"single", parts(single)}, {"pair", parts(pair)}};
  json["special_tokens"] = special;
  return json;
}

}  // namespace fovea::text
