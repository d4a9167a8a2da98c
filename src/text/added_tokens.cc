#include "text/added_tokens.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(decode(text, character_begin(text, text.size() - 1)).code);
}

bool starts_with_word(std::string_view text) { return !text.empty() && is_word(decode(text, 0).code); }

}  // namespace

AddedToken read_added_token(Settings settings) {
  AddedToken token;
  token.content = settings.need_text("content");
  token.id = static_cast<std::int32_t>(settings.number("id", 0));
  settings.need("id");
  token.single_word = settings.flag("single_word", false);
  token.strip_left = settings.flag("lstrip", false);
  token.strip_right = settings.flag("rstrip", false);
  token.special = settings.flag("special", false);
  token.normalized = settings.flag("normalized", !token.special);
  settings.finish();
  return token;
}

void AddedTokens::add(const AddedToken& token, const Normalizer* normalizer) {
  AlignedText content(token.content, {0, static_cast<std::uint32_t>(token.content.size())}, true);
  if (normalizer != nullptr) normalizer->apply(content);
  if (content.size() == 0) return;
  trie_.insert(content.text(), static_cast<std::int32_t>(tokens_.size()));
  tokens_.push_back(token);
  starts_[static_cast<unsigned char>(content.text()[0])] = true;
}

// The match with the white space it takes; empty: it does not count.
Range AddedTokens::grown(std::string_view text, Range match, std::uint32_t from, const AddedToken& token) const {
  if (token.single_word && (ends_with_word(text.substr(0, match.begin)) || starts_with_word(text.substr(match.end))))
    return {};
  while (token.strip_left && match.begin > from) {
    const auto last = static_cast<std::uint32_t>(character_begin(text, match.begin - 1));
    if (!is_white_space(decode(text, last).code)) break;
    match.begin = last;
  }
  while (token.strip_right && match.end < text.size() && is_white_space(decode(text, match.end).code))
    match.end += decode(text, match.end).size;
  return match;
}

void AddedTokens::cut(std::string_view all, Range within, std::vector<Segment>& segments) const {
  const std::string_view text = all.substr(0, within.end);
  std::uint32_t done = within.begin;
  for (std::uint32_t at = within.begin; !empty() && at < within.end;) {
    std::uint32_t size = 0;
    std::int32_t found = 0;
    if (starts_[static_cast<unsigned char>(text[at])])
      trie_.prefixes(text.substr(at), [&](std::size_t length, std::int32_t token) {
        size = static_cast<std::uint32_t>(length);
        found = token;
      });
    if (size == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found)];
    // The text before `within` is not seen by a word test, nor does a token reach into what an earlier one took.
    const std::string_view seen = text.substr(within.begin);
    const Range inside = grown(seen, {at - within.begin, at + size - within.begin}, done - within.begin, token);
    at += size;
    if (inside.empty()) continue;
    const Range match{inside.begin + within.begin, inside.end + within.begin};
    if (match.begin > done) segments.push_back({{done, match.begin}, -1});
    segments.push_back({match, token.id});
    done = match.end;
    at = std::max(at, done);
  }
  if (done < within.end) segments.push_back({{done, within.end}, -1});
}

}  // namespace fovea::text
