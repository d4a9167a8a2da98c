#include "text/pre_tokenizer.h"

#include <functional>

#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

// A stage that cuts without changing the text.
template <class CutPiece>
class Cutter final : public PreTokenizer {
 public:
  explicit Cutter(CutPiece cut_piece) : cut_piece_(std::move(cut_piece)) {}

  void apply(Pieces& pieces) const override {
    std::vector<Range> out;
    out.reserve(2 * pieces.ranges.size());
    for (const Range& range : pieces.ranges) cut_piece_(pieces.text.text(), range, out);
    pieces.ranges = std::move(out);
  }

 private:
  CutPiece cut_piece_;
};

template <class CutPiece>
std::unique_ptr<PreTokenizer> cutter(CutPiece cut_piece) {
  return std::make_unique<Cutter<CutPiece>>(std::move(cut_piece));
}

// Each character of a kind is a separator of its own.
template <class Is>
auto cut_at(Is is, Behaviour behaviour) {
  return [=](std::string_view text, Range range, std::vector<Range>& out) {
    std::vector<Range> found;
    for (std::uint32_t at = range.begin; at < range.end;) {
      const Character c = decode(text, at);
      if (is(c.code)) found.push_back({at, at + c.size});
      at += c.size;
    }
    cut(range, found, {behaviour}, out);
  };
}

// \w+|[^\w\s]+
void cut_words(std::string_view text, Range range, std::vector<Range>& out) {
  enum { space, word, sign } last = space;
  for (std::uint32_t at = range.begin; at < range.end;) {
    const Character c = decode(text, at);
    const auto kind = is_word(c.code) ? word : is_white_space(c.code) ? space : sign;
    if (kind != space && kind == last)
      out.back().end = at + c.size;
    else if (kind != space)
      out.push_back({at, at + c.size});
    last = kind;
    at += c.size;
  }
}

// A stage that writes the text anew, piece by piece: what it returns, if anything, goes before the piece.
class ByteLevel final : public PreTokenizer {
 public:
  struct Options {
    bool prefix_space, cut, raw;
  };
  explicit ByteLevel(Options options) : options_(options) {}

  void apply(Pieces& pieces) const override {
    if (options_.prefix_space) add_spaces(pieces);
    if (options_.cut) {
      std::vector<Range> out;
      out.reserve(pieces.text.size() / 4);
      for (const Range& range : pieces.ranges) gpt2_cut(pieces.text.text(), range, out);
      pieces.ranges = std::move(out);
    }
    if (!options_.raw || pieces.text.repaired()) rewrite(pieces);
  }

 private:
  static void add_spaces(Pieces& pieces) {
    AlignedText::Rebuild rebuild(pieces.text);
    for (Range& range : pieces.ranges) {
      const std::uint32_t begin = rebuild.size();
      if (pieces.text.text()[range.begin] != ' ') {
        const std::uint32_t size = decode(pieces.text.text(), range.begin).size;
        rebuild.insert(" ", pieces.text.original({range.begin, range.begin + size}));
      }
      rebuild.copy(range);
      range = {begin, rebuild.size()};
    }
    rebuild.commit();
  }

  // Bytes as characters or, raw, only the bytes that were replaced because they are no UTF-8.
  void rewrite(Pieces& pieces) const {
    const std::string_view text = pieces.text.text();
    AlignedText::Rebuild rebuild(pieces.text);
    for (Range& range : pieces.ranges) {
      const std::uint32_t begin = rebuild.size();
      for (std::uint32_t at = range.begin; at < range.end;) {
        const std::uint32_t size = decode(text, at).size;
        const std::string_view invalid = pieces.text.invalid_byte(at);
        const std::string_view bytes = invalid.empty() ? text.substr(at, size) : invalid;
        rebuild.insert(options_.raw ? std::string(bytes) : bytes_as_characters(bytes),
                       pieces.text.original({at, at + size}));
        at += size;
      }
      range = {begin, rebuild.size()};
    }
    rebuild.commit();
  }

  Options options_;
};

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(Settings& settings)
      : mark_(to_utf8(settings.character("replacement", 0x2581))), cut_(settings.flag("split", true)) {
    settings.ignore({"str_rep"});
    const bool prefix = settings.flag("add_prefix_space", true);
    const std::string scheme = settings.text("prepend_scheme", prefix ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      settings.refuse("expected always, first or never, got \"" + scheme + "\"", "prepend_scheme");
    always_ = scheme == "always";
    first_ = scheme == "first";
  }

  void apply(Pieces& pieces) const override {
    mark(pieces);
    if (!cut_) return;
    std::vector<Range> out, found;
    const Pattern marks = Pattern::plain(mark_);
    for (const Range& range : pieces.ranges) {
      found.clear();
      marks.find(pieces.text.text(), range, found);
      cut(range, found, {Behaviour::next}, out);
    }
    pieces.ranges = std::move(out);
  }

 private:
  void mark(Pieces& pieces) const {
    const std::string_view text = pieces.text.text();
    AlignedText::Rebuild rebuild(pieces.text);
    for (Range& range : pieces.ranges) {
      const std::uint32_t begin = rebuild.size();
      const std::string_view piece = text.substr(range.begin, range.size());
      const Range head = pieces.text.original({range.begin, range.begin + decode(text, range.begin).size});
      const bool marked = piece.starts_with(mark_) || piece.starts_with(' ');
      if (!marked && (always_ || (first_ && head.begin == 0))) rebuild.insert(mark_, head);
      std::uint32_t done = range.begin;
      for (std::uint32_t at = range.begin; at < range.end; ++at) {
        if (text[at] != ' ') continue;
        rebuild.copy({done, at});
        rebuild.insert(mark_, pieces.text.original({at, at + 1}));
        done = at + 1;
      }
      rebuild.copy({done, range.end});
      range = {begin, rebuild.size()};
    }
    rebuild.commit();
  }

  std::string mark_;
  bool cut_, always_ = false, first_ = false;
};

std::unique_ptr<PreTokenizer> make_split(Settings& settings) {
  const Pattern pattern = Pattern::read(settings.need("pattern"), settings.where() + ".pattern");
  const Cut how{read_behaviour(settings, Behaviour::removed), settings.flag("invert", false)};
  return cutter([=, found = std::vector<Range>()](std::string_view text, Range range, std::vector<Range>& out) {
    std::vector<Range> matches;
    pattern.find(text, range, matches);
    cut(range, matches, how, out);
  });
}

std::unique_ptr<PreTokenizer> make(const std::string& type, Settings& settings, bool raw) {
  if (type == "ByteLevel") {
    settings.ignore({"trim_offsets"});
    return std::make_unique<ByteLevel>(
        ByteLevel::Options{settings.flag("add_prefix_space", true), settings.flag("use_regex", true), raw});
  }
  if (type == "Whitespace") return cutter(cut_words);
  if (type == "WhitespaceSplit") return cutter(cut_at(is_white_space, Behaviour::removed));
  if (type == "Punctuation") return cutter(cut_at(is_punctuation, read_behaviour(settings, Behaviour::isolated)));
  if (type == "Digits") {
    const bool each = settings.flag("individual_digits", false);
    return cutter(cut_at(is_number, each ? Behaviour::isolated : Behaviour::contiguous));
  }
  if (type == "CharDelimiterSplit") {
    const char32_t delimiter = settings.character("delimiter", ' ');
    return cutter(cut_at([=](char32_t code) { return code == delimiter; }, Behaviour::removed));
  }
  if (type == "Metaspace") return std::make_unique<Metaspace>(settings);
  if (type == "Split") return make_split(settings);
  settings.refuse_type(type, {"BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace",
                              "Punctuation", "Sequence", "Split", "Whitespace", "WhitespaceSplit"});
}

struct Stage {
  std::string type;
  Settings settings;
};

void flatten(Settings settings, std::vector<Stage>& stages) {
  const std::string type = settings.need_text("type");
  if (type != "Sequence") return stages.push_back({type, settings});
  for (Settings& part : settings.list("pretokenizers")) flatten(part, stages);
  settings.finish();
}

}  // namespace

PreTokenizers read_pre_tokenizers(Settings settings, bool raw_bytes) {
  std::vector<Stage> stages;
  flatten(std::move(settings), stages);
  PreTokenizers made;
  for (Stage& stage : stages) {
    const bool last = &stage == &stages.back();
    if (stage.type == "BertPreTokenizer") {
      made.stages.push_back(cutter(cut_at(is_white_space, Behaviour::removed)));
      made.stages.push_back(cutter(cut_at(is_punctuation, Behaviour::isolated)));
    } else {
      const bool raw = raw_bytes && last && stage.type == "ByteLevel";
      made.stages.push_back(make(stage.type, stage.settings, raw));
      made.byte_level = raw;
    }
    stage.settings.finish();
  }
  const std::string first = stages.empty() ? "" : stages.front().type;
  made.only_gpt2 = made.byte_level && stages.size() == 1;
  made.at_spaces = first == "BertPreTokenizer" || first == "Whitespace" || first == "WhitespaceSplit";
  return made;
}

}  // namespace fovea::text
