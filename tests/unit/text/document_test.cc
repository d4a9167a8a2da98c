#include <gtest/gtest.h>

#include <functional>

#include "fovea/tokenizer.h"
#include "io/json.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

// A small tokeniser, with changes.
JsonMap words() {
  return JsonMap::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "<x>", "special": true}], "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "u": 2}, "unk_token": "u"}})");
}

Tokenizer load(const std::string& text) {
  const TemporaryFolder folder;
  put(folder / "tokenizer.json", text);
  return Tokenizer::load((folder / "tokenizer.json").string());
}

Tokenizer with(const std::string& path, const JsonMap& value) {
  JsonMap json = words();
  json[JsonMap::json_pointer(path)] = value;
  return load(json.dump());
}

TEST(Document, RefusesWhatItDoesNotKnowByName) {
  const auto unsupported = ErrorCode::unsupported;
  EXPECT_ERROR(with("/normalizer", {{"type", "Upside"}}), unsupported, "\"Upside\"", "normalizer", "NFC");
  EXPECT_ERROR(with("/normalizer", {{"type", "NFC"}, {"way", 1}}), unsupported, "\"way\"", "normalizer", "");
  EXPECT_ERROR(with("/pre_tokenizer", {{"type", "UnicodeScripts"}}), unsupported, "UnicodeScripts", "pre_tokenizer",
               "");
  EXPECT_ERROR(with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Digit"}}}}}), unsupported,
               "Digit", "pretokenizers[0]", "Digits");
  EXPECT_ERROR(with("/post_processor", {{"type", "Other"}}), unsupported, "Other", "post_processor", "");
  EXPECT_ERROR(with("/decoder", {{"type", "CTC"}}), unsupported, "CTC", "decoder", "");
  EXPECT_ERROR(with("/model/type", "Neural"), unsupported, "Neural", "model", "");
  EXPECT_ERROR(with("/model/dropouts", 0.1), unsupported, "dropouts", "model", "");
  EXPECT_ERROR(with("/extra", 1), unsupported, "extra", "tokenizer.json", "");
}

// The values that are looked at before their component is read.
TEST(Document, RefusesValuesOfTheWrongKindByName) {
  const auto bad = ErrorCode::bad_input;
  EXPECT_ERROR(with("/added_tokens/0", nullptr), bad, "expected an object, got null", "added_tokens[0]", "");
  EXPECT_ERROR(with("/added_tokens/0", 7), bad, "expected an object, got a number", "added_tokens[0]", "");
  EXPECT_ERROR(with("/added_tokens/0/content", nullptr), bad, "\"content\" is missing", "added_tokens[0]", "");
  EXPECT_ERROR(with("/added_tokens/0/content", 5), bad, "expected a string", "added_tokens[0].content", "");
  EXPECT_ERROR(with("/added_tokens", 5), bad, "expected a list", "added_tokens", "");
  EXPECT_ERROR(with("/normalizer", {{"type", 5}}), bad, "expected a string", "normalizer.type", "");
  JsonMap bpe = words();
  bpe["model"] = {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", JsonMap::array()}};
  bpe["pre_tokenizer"] = {{"type", 5}};
  EXPECT_ERROR(load(bpe.dump()), bad, "expected a string", "pre_tokenizer.type", "");
}

// A file of a few hundred bytes could ask for any amount of memory.
TEST(Document, RefusesTextsAndTemplatesThatGrowWithoutBound) {
  const JsonMap twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  JsonMap json = words();
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", JsonMap(40, twice)}};
  EXPECT_ERROR(load(json.dump()).encode("aaaa"), ErrorCode::bad_input, "longer than", "", "");
  json["normalizer"] = nullptr;
  json["decoder"] = {{"type", "Sequence"}, {"decoders", JsonMap(40, twice)}};
  const std::int32_t ids[] = {0};
  EXPECT_ERROR(load(json.dump()).decode(ids), ErrorCode::bad_input, "too long", "", "");
  json["decoder"] = nullptr;
  const JsonMap part = {{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}};
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", JsonMap(100, part)},
                            {"pair", JsonMap::array()},
                            {"special_tokens", {{"x", {{"id", "x"}, {"ids", JsonMap(100, 1)}, {"tokens", {"x"}}}}}}};
  EXPECT_ERROR(load(json.dump()), ErrorCode::bad_input, "more than 4096 tokens", "single[40]", "");
}

TEST(Document, RefusesDropout) {
  JsonMap json = words();
  json["model"] = {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", JsonMap::array()}, {"dropout", 0.1}};
  EXPECT_ERROR(load(json.dump()), ErrorCode::bad_input, "dropout", "model.dropout", "");
  json["model"]["dropout"] = nullptr;
  json["added_tokens"] = JsonMap::array();
  EXPECT_EQ(load(json.dump()).vocabulary(), 1);
}

TEST(Document, RefusesHostileFiles) {
  const auto bad = ErrorCode::bad_input;
  EXPECT_ERROR(load("{"), bad, "not JSON", "tokenizer.json", "");
  EXPECT_ERROR(load("[]"), bad, "expected an object", "tokenizer.json", "");
  EXPECT_ERROR(load("{}"), bad, "\"model\" is missing", "tokenizer.json", "");
  EXPECT_ERROR(load(std::string(100, '[')), bad, "", "tokenizer.json", "");
  EXPECT_ERROR(with("/model/vocab", {{"a", 2147483647}}), bad, "ids are 0 to", "", "");
  EXPECT_ERROR(with("/model/vocab", {{"a", -1}}), bad, "not a whole number", "vocab", "");
  EXPECT_ERROR(with("/model/vocab", {{"a", 1e30}}), bad, "not a whole number", "vocab", "");
  EXPECT_ERROR(with("/model/vocab", {{"a", 0}, {"b", 0}}), bad, "same id 0", "", "");
  EXPECT_ERROR(with("/model/vocab", 3), bad, "expected an object", "vocab", "");
  EXPECT_ERROR(with("/model/vocab", {{"a", "x"}}), bad, "not a whole number", "vocab", "");
  EXPECT_ERROR(with("/added_tokens/0/id", 1), bad, "belongs to another token", "added_tokens[0]", "");
  EXPECT_ERROR(with("/added_tokens/0/id", 2000000000), bad, "ids are 0 to", "added_tokens[0]", "");
  EXPECT_ERROR(with("/added_tokens", 5), bad, "expected a list", "added_tokens", "");
  EXPECT_ERROR(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Removed"}}), bad,
               "not a regular expression", "pattern", "");
  EXPECT_ERROR(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Gone"}}), bad,
               "\"Gone\"", "behavior", "");
  EXPECT_ERROR(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}), bad, "damaged",
               "precompiled_charsmap", "");
  EXPECT_ERROR(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}), bad, "not base64",
               "precompiled_charsmap", "");
}

TEST(Document, RefusesHostileTemplates) {
  JsonMap post = JsonMap::parse(R"({"type": "TemplateProcessing", "special_tokens": {},
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}], "pair": []})");
  EXPECT_ERROR(with("/post_processor", post), ErrorCode::bad_input, "<s>", "single[0]", "");
  post["single"] = JsonMap::parse(R"([{"Sequence": {"id": "C", "type_id": 0}}])");
  EXPECT_ERROR(with("/post_processor", post), ErrorCode::bad_input, "A or B", "single[0]", "");
}

TEST(Document, UnknownWordsWithoutATokenForThem) {
  const Tokenizer tokenizer = with("/model/unk_token", "missing");
  EXPECT_EQ(tokenizer.encode("a <x>").ids, (std::vector<std::int32_t>{0, 3}));
  EXPECT_ERROR(tokenizer.encode("zebra"), ErrorCode::bad_input, "\"zebra\" is not in the vocabulary", "", "");
}

TEST(Document, TruncationOnRequest) {
  const JsonMap truncation{{"max_length", 2}, {"direction", "Left"}, {"strategy", "LongestFirst"}, {"stride", 0}};
  const Tokenizer tokenizer = with("/truncation", truncation);
  EXPECT_EQ(tokenizer.truncation(), 2u);
  EXPECT_EQ(tokenizer.encode("a b a b").ids.size(), 4u);
  EXPECT_EQ(tokenizer.encode("a b a", true, tokenizer.truncation()).ids, (std::vector<std::int32_t>{1, 0}));
}

TEST(Document, EveryTruncatedFileIsRefused) {
  const std::string text = words().dump();
  for (std::size_t size = 0; size < text.size(); size += 7)
    EXPECT_ERROR(load(text.substr(0, size)), ErrorCode::bad_input, "", "tokenizer.json", "");
}

}  // namespace
}  // namespace fovea
