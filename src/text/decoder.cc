#include "text/decoder.h"

#include <algorithm>
#include <charconv>

#include "fovea/error.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// A decoder that is one function.
template <class Apply>
class SimpleDecoder final : public Decoder {
 public:
  explicit SimpleDecoder(Apply apply) : apply_(std::move(apply)) {}
  void apply(Tokens& tokens) const override { apply_(tokens); }

 private:
  Apply apply_;
};

template <class Apply>
std::unique_ptr<Decoder> simple_decoder(Apply apply) {
  return std::make_unique<SimpleDecoder<Apply>>(std::move(apply));
}

void fuse(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens = {std::move(all)};
}

void byte_level(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += characters_as_bytes(token).value_or(token);
  tokens = {replace_invalid(bytes)};
}

// "<0x41>" as its byte; bytes that are no characters become U+FFFD, one each.
void byte_fallback(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (is_valid_utf8(bytes)) {
      if (!bytes.empty()) out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), std::string(kReplacementUtf8));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    unsigned value = 0;
    const bool form = token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
    const char* end = token.data() + 5;
    if (form && std::from_chars(token.data() + 3, end, value, 16).ptr == end) {
      bytes.push_back(static_cast<char>(value));
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

// Spaces before punctuation and contractions, as English text does not have them.
void clean(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

std::unique_ptr<Decoder> make_wordpiece(Settings& settings) {
  const std::string prefix = settings.text("prefix", "##");
  const bool cleanup = settings.flag("cleanup", true);
  return simple_decoder([=](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix))
        token.erase(0, prefix.size());
      else if (i > 0)
        token.insert(0, " ");
      if (cleanup) clean(token);
    }
  });
}

std::unique_ptr<Decoder> make_metaspace(Settings& settings) {
  const std::string mark = to_utf8(settings.character("replacement", 0x2581));
  const bool prefix = settings.flag("add_prefix_space", true);
  const bool drop = settings.text("prepend_scheme", prefix ? "always" : "never") != "never";
  settings.ignore({"str_rep", "split"});
  return simple_decoder([=](Tokens& tokens) {
    for (std::string& token : tokens) replace_all(token, mark, drop && &token == &tokens.front() ? "" : " ");
  });
}

std::unique_ptr<Decoder> make_bpe(Settings& settings) {
  return simple_decoder([suffix = settings.text("suffix", "</w>")](Tokens& tokens) {
    for (std::string& token : tokens) replace_all(token, suffix, &token == &tokens.back() ? "" : " ");
  });
}

std::size_t bytes_of(const Tokens& tokens) {
  std::size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

// A file may ask for any number of replacements, each of which makes all tokens longer.
std::unique_ptr<Decoder> make_replace(Settings& settings) {
  const Pattern pattern = Pattern::read(settings.need("pattern"), settings.where() + ".pattern");
  return simple_decoder([=, content = settings.need_text("content")](Tokens& tokens) {
    constexpr std::size_t kMost = std::size_t{1} << 20;
    std::size_t left = std::max(kMost, 2 * bytes_of(tokens));
    std::vector<Range> found;
    for (std::string& token : tokens) {
      found.clear();
      if (!is_valid_utf8(token)) token = replace_invalid(token);
      pattern.find(token, {0, static_cast<std::uint32_t>(token.size())}, found);
      const std::size_t bytes = token.size() + found.size() * content.size();
      if (bytes > left) fail(ErrorCode::bad_input, "the decoder of the tokeniser makes the text too long");
      left -= bytes;
      std::string made;
      std::size_t done = 0;
      for (const Range& match : found) {
        made.append(token, done, match.begin - done).append(content);
        done = match.end;
      }
      token = made.append(token, done);
    }
  });
}

// Up to `start` and `stop` copies of a character at the ends of each token.
std::unique_ptr<Decoder> make_strip(Settings& settings) {
  const std::string content = to_utf8(settings.character("content", ' '));
  const std::int64_t start = settings.number("start", 0), stop = settings.number("stop", 0);
  return simple_decoder([=](Tokens& tokens) {
    for (std::string& token : tokens) {
      for (std::int64_t i = 0; i < start && token.starts_with(content); ++i) token.erase(0, content.size());
      for (std::int64_t i = 0; i < stop && token.ends_with(content); ++i) token.resize(token.size() - content.size());
    }
  });
}

std::unique_ptr<Decoder> make_sequence(Settings& settings) {
  std::vector<std::shared_ptr<Decoder>> parts;
  for (Settings& part : settings.list("decoders")) parts.push_back(read_decoder(part));
  return simple_decoder([=](Tokens& tokens) {
    for (const auto& part : parts) part->apply(tokens);
  });
}

std::unique_ptr<Decoder> make_decoder(const std::string& type, Settings& settings) {
  if (type == "ByteLevel") {
    settings.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
    return simple_decoder(byte_level);
  }
  if (type == "BPEDecoder") return make_bpe(settings);
  if (type == "ByteFallback") return simple_decoder(byte_fallback);
  if (type == "Fuse") return simple_decoder(fuse);
  if (type == "Metaspace") return make_metaspace(settings);
  if (type == "Replace") return make_replace(settings);
  if (type == "Sequence") return make_sequence(settings);
  if (type == "Strip") return make_strip(settings);
  if (type == "WordPiece") return make_wordpiece(settings);
  settings.refuse_type(type, {"BPEDecoder", "ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Replace", "Sequence",
                              "Strip", "WordPiece"});
}

}  // namespace

std::unique_ptr<Decoder> read_decoder(Settings settings) {
  std::unique_ptr<Decoder> made = make_decoder(settings.need_text("type"), settings);
  settings.finish();
  return made;
}

}  // namespace fovea::text
