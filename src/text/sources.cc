#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "io/xz.h"
#include "text/document.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

// The lines of a text file, without their ends.
std::vector<std::string> read_lines(const Path& path) {
  const std::string text = read_maybe_xz(path, kTokenizerCap);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

// "left right" a line; the first may name a version.
void read_merge_lines(const Path& path, ModelData& data) {
  std::size_t number = 0;
  for (const std::string& line : read_lines(path)) {
    ++number;
    if (line.starts_with("#version") || line.empty()) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      fail(ErrorCode::bad_input, "expected two tokens and a space between them",
           fmt::format("{}:{}", path.string(), number));
    data.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
}

// Names the special tokens that the vocabulary has, and adds them.
void add_special(Document& document, std::initializer_list<std::pair<const char*, const char*>> roles) {
  JsonMap& added = document.settings["added_tokens"];
  for (const auto& [role, token] : roles) {
    const auto id = document.data.vocabulary.find(token);
    if (!id) continue;
    document.roles[role] = token;
    const bool there = std::any_of(added.begin(), added.end(), [&](const JsonMap& a) { return a["id"] == *id; });
    if (!there)
      added.push_back(added_token_json(
          {.content = token, .id = *id, .strip_left = token == std::string("<mask>"), .special = true}));
  }
  std::sort(added.begin(), added.end(), [](const JsonMap& a, const JsonMap& b) { return a["id"] < b["id"]; });
}

JsonMap byte_level(bool trim) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trim}, {"use_regex", true}};
}

// "<s>", or {"content": "<s>", ...}.
void read_roles(Document& document, const JsonMap& config) {
  for (const char* role :
       {"bos_token", "eos_token", "unk_token", "pad_token", "mask_token", "cls_token", "sep_token"}) {
    const auto found = config.find(role);
    if (found == config.end()) continue;
    const JsonMap& name = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
    if (name.is_string()) document.roles[role] = name.get<std::string>();
  }
}

JsonMap read_config(const Path& path) {
  if (!is_file(path)) return JsonMap::object();
  JsonMap config = parse_json_map(read_file(path, kTokenizerCap), path.string());
  if (!config.is_object()) fail(ErrorCode::bad_input, "expected an object", path.string());
  return config;
}

Document load_folder(const Path& folder) {
  const JsonMap config = read_config(folder / "tokenizer_config.json");
  Document document = [&] {
    if (is_file(folder / "tokenizer.json"))
      return parse_document(read_file(folder / "tokenizer.json", kTokenizerCap), (folder / "tokenizer.json").string());
    if (is_file(folder / "vocab.json")) return read_vocab_json(folder / "vocab.json", folder / "merges.txt");
    if (is_file(folder / "vocab.txt")) {
      const auto lower = config.find("do_lower_case");
      const bool said = lower != config.end() && lower->is_boolean();
      return read_vocab_txt(folder / "vocab.txt", said ? std::optional(lower->get<bool>()) : std::nullopt);
    }
    if (is_file(folder / "tokenizer.bin")) return read_llama2c(folder / "tokenizer.bin");
    fail(ErrorCode::bad_input, "no tokeniser in this folder", folder.string(),
         "tokenizer.json, vocab.json with merges.txt, vocab.txt or tokenizer.bin");
  }();
  read_roles(document, read_config(folder / "special_tokens_map.json"));
  read_roles(document, config);
  return document;
}

}  // namespace

void guess_roles(Document& document) {
  constexpr std::pair<const char*, const char*> kUsual[] = {{"bos_token", "<s>"},
                                                            {"bos_token", "<|begin_of_text|>"},
                                                            {"bos_token", "<|endoftext|>"},
                                                            {"eos_token", "</s>"},
                                                            {"eos_token", "<|end_of_text|>"},
                                                            {"eos_token", "<|endoftext|>"},
                                                            {"unk_token", "<unk>"},
                                                            {"unk_token", "[UNK]"},
                                                            {"pad_token", "<pad>"},
                                                            {"pad_token", "[PAD]"},
                                                            {"mask_token", "<mask>"},
                                                            {"mask_token", "[MASK]"},
                                                            {"cls_token", "[CLS]"},
                                                            {"sep_token", "[SEP]"}};
  std::map<std::string, bool> added;
  for (const JsonMap& token : document.settings["added_tokens"]) added[text_at(token, "content")] = true;
  for (const auto& [role, token] : kUsual)
    if (added.contains(token) || document.data.vocabulary.find(token)) document.roles.emplace(role, token);
}

Document load_document(const Path& path) {
  Document document;
  std::string name = path.filename().string();
  if (name.ends_with(".xz")) name.resize(name.size() - 3);
  if (is_folder(path))
    document = load_folder(path);
  else if (name.ends_with(".bin"))
    document = read_llama2c(path);
  else if (name.ends_with(".txt"))
    document = read_vocab_txt(path, std::nullopt);
  else if (name.ends_with("vocab.json") || name.ends_with("encoder.json")) {
    const bool gpt2 = name == "encoder.json";
    document = read_vocab_json(path, path.parent_path() / (gpt2 ? "vocab.bpe" : "merges.txt"));
  } else if (name.ends_with(".json")) {
    document = parse_document(read_maybe_xz(path, kTokenizerCap), path.string());
  } else if (name.ends_with(".model")) {
    fail(ErrorCode::unsupported, "a sentencepiece model file", path.string(),
         "convert it to tokenizer.json, as `transformers` does when it saves a fast tokeniser");
  } else {
    read_file(path, kTokenizerCap);  // says whether it is there at all
    fail(ErrorCode::bad_input, "not a tokeniser file by its name", path.string(),
         "tokenizer.json, vocab.json, vocab.txt or a llama2.c .bin");
  }
  return document;
}

Document read_vocab_json(const Path& vocab, const Path& merges) {
  Document document;
  document.where = vocab.string();
  const JsonMap tokens = parse_json_map(read_maybe_xz(vocab, kTokenizerCap), vocab.string());
  if (!tokens.is_object()) fail(ErrorCode::bad_input, "expected an object of tokens and ids", vocab.string());
  read_vocabulary(tokens, document.data, vocab.string());
  read_merge_lines(merges, document.data);
  document.settings = empty_settings("BPE");
  document.settings["pre_tokenizer"] = document.settings["decoder"] = byte_level(true);
  document.settings["post_processor"] = byte_level(false);
  const auto& vocabulary = document.data.vocabulary;
  const auto begin = vocabulary.find("<s>"), end = vocabulary.find("</s>"), mask = vocabulary.find("<mask>");
  if (!begin || !end || !mask) {
    constexpr const char* kEnd = "<|endoftext|>";
    add_special(document, {{"bos_token", kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}});
    return document;
  }
  document.settings["post_processor"] = {{"type", "RobertaProcessing"},
                                         {"sep", {"</s>", *end}},
                                         {"cls", {"<s>", *begin}},
                                         {"trim_offsets", true},
                                         {"add_prefix_space", false}};
  add_special(document, {{"bos_token", "<s>"},
                         {"eos_token", "</s>"},
                         {"cls_token", "<s>"},
                         {"sep_token", "</s>"},
                         {"pad_token", "<pad>"},
                         {"unk_token", "<unk>"},
                         {"mask_token", "<mask>"}});
  return document;
}

Document read_vocab_txt(const Path& vocab, std::optional<bool> lower) {
  Document document;
  document.where = vocab.string();
  std::int32_t id = 0;
  bool capitals = false;
  for (const std::string& line : read_lines(vocab)) {
    if (!is_valid_utf8(line)) fail(ErrorCode::bad_input, "not UTF-8", fmt::format("{}:{}", vocab.string(), id + 1));
    const std::size_t end = line.find_last_not_of(" \t");
    capitals = capitals || (!line.starts_with('[') &&
                            std::any_of(line.begin(), line.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
    document.data.vocabulary.add(line.substr(0, end == std::string::npos ? 0 : end + 1), id++);
  }
  const auto& vocabulary = document.data.vocabulary;
  for (const char* token : {"[UNK]", "[CLS]", "[SEP]"})
    if (!vocabulary.find(token))
      fail(ErrorCode::bad_input, fmt::format("the vocabulary has no {}", token), vocab.string(),
           "a vocab.txt of BERT has one token a line");
  document.settings = empty_settings("WordPiece");
  document.settings["normalizer"] = {{"type", "BertNormalizer"},
                                     {"clean_text", true},
                                     {"handle_chinese_chars", true},
                                     {"strip_accents", nullptr},
                                     {"lowercase", lower.value_or(!capitals)}};
  document.settings["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  document.settings["post_processor"] = template_json("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", vocabulary);
  document.settings["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  document.settings["model"] = {{"type", "WordPiece"},
                                {"unk_token", "[UNK]"},
                                {"continuing_subword_prefix", "##"},
                                {"max_input_chars_per_word", 100}};
  add_special(document, {{"pad_token", "[PAD]"},
                         {"unk_token", "[UNK]"},
                         {"cls_token", "[CLS]"},
                         {"sep_token", "[SEP]"},
                         {"mask_token", "[MASK]"}});
  return document;
}

}  // namespace fovea::text
