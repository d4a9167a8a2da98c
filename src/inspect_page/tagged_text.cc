#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "fovea/error.h"
#include "fovea/inspect_page.h"
#include "text/text_file.h"

namespace fovea {
namespace {

constexpr std::int64_t kMostWords = 1'000'000'000;  // of a sentence
constexpr std::size_t kColumns = 10;                // ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC
using Columns = std::array<std::string_view, kColumns>;

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > kMostWords) return {};
  return number;
}

std::string given(std::string_view field) { return field == "_" ? "" : std::string(field); }

// Reads line after line. Numbers of words begin anew with each sentence.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void line(std::string_view text) {
    ++number_;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) return end_sentence();
    if (text.starts_with('#')) return;
    const Columns columns = cut(text);
    const std::string_view id = columns[0];
    if (id.find('.') != id.npos) return;  // words that are not written
    if (const std::size_t dash = id.find('-'); dash != id.npos) {
      // Words that are written as one: the first of them has its place.
      const auto last = number_of(id.substr(dash + 1));
      if (!number_of(id.substr(0, dash)) || !last) refuse(fmt::format("\"{}\" is no range of words", id));
      write(columns);
      joined_ = out_.words.size();
      joined_until_ = *last;
      return;
    }
    word(columns);
  }

  TaggedText finish() {
    end_sentence();
    if (out_.words.empty()) fail(ErrorCode::bad_input, "no words", path_, "a file of CoNLL-U");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorCode::bad_input, what, fmt::format("{}:{}", path_, number_),
         "CoNLL-U: ten columns with tabs between them, an empty line after each sentence");
  }

  Columns cut(std::string_view text) const {
    Columns out;
    std::size_t count = 0;
    for (std::size_t begin = 0; begin <= text.size(); ++count) {
      const std::size_t end = std::min(text.find('\t', begin), text.size());
      if (count < kColumns) out[count] = text.substr(begin, end - begin);
      begin = end + 1;
    }
    if (count != kColumns) refuse(fmt::format("{} columns", count));
    return out;
  }

  void write(const Columns& columns) {
    if (columns[1].empty()) refuse("a word without a form");
    if (space_) out_.text += ' ';
    begin_ = out_.text.size();
    out_.text += columns[1];
    space_ = columns[9].find("SpaceAfter=No") == columns[9].npos;
  }

  void word(const Columns& columns) {
    const auto id = number_of(columns[0]), head = columns[6] == "_" ? 0 : number_of(columns[6]);
    if (!id || *id != std::ssize(out_.words) - first_ + 1)
      refuse(fmt::format("\"{}\" is not the next word", columns[0]));
    if (!head) refuse(fmt::format("\"{}\" is no word to depend on", columns[6]));
    const bool is_joined = *id <= joined_until_;
    if (!is_joined) write(columns);
    const std::size_t begin = is_joined && out_.words.size() > joined_ ? out_.text.size() : begin_;
    out_.places.emplace_back(begin, out_.text.size());
    out_.words.push_back({.tag = given(columns[3]), .relation = given(columns[7]), .head = first_ + *head - 1});
    if (*head == 0) out_.words.back().head = -1;
  }

  void end_sentence() {
    const auto words = std::ssize(out_.words);
    for (std::int64_t w = first_; w < words; ++w)
      if (out_.words[static_cast<std::size_t>(w)].head >= words)
        refuse(fmt::format("word {} of the sentence depends on one that it does not have", w - first_ + 1));
    first_ = words;
    joined_until_ = 0;
  }

  std::string path_;
  TaggedText out_;
  std::int64_t number_ = 0, first_ = 0;  // of the line; the first word of the sentence
  std::size_t begin_ = 0, joined_ = 0;   // of the text of the last word; the first of the words written as one
  std::int64_t joined_until_ = 0;
  bool space_ = false;
};

}  // namespace

TaggedText read_tagged_text(const std::string& path) {
  const std::string text = read_text(path);
  Reader reader(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    reader.line(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return reader.finish();
}

}  // namespace fovea
