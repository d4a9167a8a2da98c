#pragma once

#include <map>
#include <string>

#include "io/file.h"
#include "text/added_tokens.h"
#include "text/model.h"

namespace fovea::text {

// What a tokenizer.json says. Every tokeniser is made from one of these: other kinds of files, and what is trained
// here, are put into this form first, so that all can be saved.
struct Document {
  JsonMap settings;  // the whole file without vocabulary and merges
  ModelData data;
  std::map<std::string, std::string> roles;  // "bos_token": "<s>", ...
  std::string where;                         // the file, for errors
};

inline constexpr std::size_t kTokenizerCap = std::size_t{512} << 20;  // of any of its files

// A folder, or one of the files in it.
Document load_document(const Path& path);

Document parse_document(std::string_view json, const std::string& where);
std::string document_text(const Document& document);
std::string config_text(const Document& document);  // tokenizer_config.json

// The beginnings of a file: all components absent, a model of this type.
JsonMap empty_settings(const std::string& model_type);
JsonMap added_token_json(const AddedToken& token);
// "[CLS] $A [SEP]" and the like: words with $ are texts, the others special tokens of the vocabulary.
JsonMap template_json(const std::string& single, const std::string& pair, const Vocabulary& vocabulary);

// {"token": id, ...}, or [["token", score], ...] with ids in order.
void read_vocabulary(const JsonMap& vocab, ModelData& data, const std::string& where);

// Adds the roles of tokens with the usual names, where no configuration file gave them.
void guess_roles(Document& document);

// Files that are not tokenizer.json.
Document read_vocab_json(const Path& vocab, const Path& merges);
Document read_vocab_txt(const Path& vocab, std::optional<bool> lower);
Document read_llama2c(const Path& path);

}  // namespace fovea::text
