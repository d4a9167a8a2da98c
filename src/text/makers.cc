#include <algorithm>
#include <set>
#include <unordered_map>

#include "fovea/error.h"
#include "text/byte_level.h"
#include "text/state.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea {
namespace {

constexpr const char* kUnknown = "<unk>";

// A vocabulary that begins with <unk>, which is a special token.
text::Document with_unknown(const std::string& model) {
  text::Document document;
  document.where = "tokenizer";
  document.settings = text::empty_settings(model);
  document.settings["model"]["unk_token"] = kUnknown;
  document.settings["added_tokens"].push_back(text::added_token_json({.content = kUnknown, .id = 0, .special = true}));
  document.roles["unk_token"] = kUnknown;
  document.data.vocabulary.add(kUnknown, 0);
  return document;
}

}  // namespace

Tokenizer Tokenizer::bytes() {
  text::Document document;
  document.where = "tokenizer";
  document.settings = text::empty_settings("BPE");
  const JsonMap level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  document.settings["pre_tokenizer"] = document.settings["decoder"] = level;
  for (int byte = 0; byte < 256; ++byte)
    document.data.vocabulary.add(text::to_utf8(text::byte_character(static_cast<unsigned char>(byte))), byte);
  return State::make(std::move(document));
}

Tokenizer Tokenizer::characters(std::span<const std::string_view> texts) {
  std::set<char32_t> seen;
  for (const std::string_view text : texts)
    text::for_characters(text, [&](const text::Character& c, std::size_t) { seen.insert(c.code); });
  text::Document document = with_unknown("BPE");
  document.settings["decoder"] = {{"type", "Fuse"}};
  std::int32_t id = 1;
  for (const char32_t code : seen) document.data.vocabulary.add(text::to_utf8(code), id++);
  return State::make(std::move(document));
}

Tokenizer Tokenizer::words(std::span<const std::string_view> texts, std::int64_t limit) {
  if (limit < 0 || limit == 1) fail(ErrorCode::usage, "a vocabulary of words has 2 ids or more", "limit");
  std::unordered_map<std::string, std::int64_t> counts;
  for (const std::string_view text : texts) {
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) ++counts[word];
      word.clear();
    };
    text::for_characters(text, [&](const text::Character& c, std::size_t) {
      text::is_white_space(c.code) ? end_word() : text::append_utf8(word, c.code);
    });
    end_word();
  }
  counts.erase(kUnknown);
  std::vector<std::pair<std::string, std::int64_t>> order(counts.begin(), counts.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (limit > 0 && static_cast<std::int64_t>(order.size()) >= limit) order.resize(static_cast<std::size_t>(limit - 1));
  text::Document document = with_unknown("WordLevel");
  document.settings["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  std::int32_t id = 1;
  for (const auto& [word, count] : order) document.data.vocabulary.add(word, id++);
  return State::make(std::move(document));
}

}  // namespace fovea
