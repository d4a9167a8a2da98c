#include "text/normalizer.h"

#include <algorithm>

#include "text/pattern.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

void lower(AlignedText& text) {
  std::vector<Change> changes;
  bool same = true;
  for_characters(text.text(), [&](const Character& c, std::size_t) {
    int kind = 0;
    lower_case(c.code, [&](char32_t code) { changes.push_back({code, kind++ > 0 ? 1 : 0}); });
    same = same && changes.back().code == c.code;
  });
  if (!same) text.transform(changes, 0);
}

class Bert final : public Normalizer {
 public:
  explicit Bert(Settings& settings)
      : clean_(settings.flag("clean_text", true)),
        ideographs_(settings.flag("handle_chinese_chars", true)),
        lower_(settings.flag("lowercase", true)),
        accents_(settings.maybe_flag("strip_accents").value_or(lower_)) {}

  void apply(AlignedText& text) const override {
    if (clean_) {
      text.filter([](char32_t c) { return c != 0 && c != kReplacement && !is_control(c); });
      text.map([](char32_t c) { return is_white_space(c) ? U' ' : c; });
    }
    if (ideographs_) space_ideographs(text);
    if (accents_) {
      normalize(text, {});
      text.filter([](char32_t c) { return !is_nonspacing_mark(c); });
    }
    if (lower_) lower(text);
  }

 private:
  static void space_ideographs(AlignedText& text) {
    std::vector<Change> changes;
    bool same = true;
    for_characters(text.text(), [&](const Character& c, std::size_t) {
      if (!is_ideograph(c.code)) return changes.push_back({c.code, 0});
      same = false;
      changes.insert(changes.end(), {{U' ', 0}, {c.code, 1}, {U' ', 1}});
    });
    if (!same) text.transform(changes, 0);
  }

  bool clean_, ideographs_, lower_, accents_;
};

class Replace final : public Normalizer {
 public:
  explicit Replace(Settings& settings)
      : pattern_(Pattern::read(settings.need("pattern"), settings.where() + ".pattern")),
        content_(settings.need_text("content")) {}

  void apply(AlignedText& text) const override {
    std::vector<Range> matches;
    pattern_.find(text.text(), {0, text.size()}, matches);
    text.replace(matches, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(Settings& settings) {
    for (Settings& part : settings.list("normalizers")) parts_.push_back(read_normalizer(part));
  }
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// A normalizer that is one function.
template <class Apply>
class SimpleNormalizer final : public Normalizer {
 public:
  explicit SimpleNormalizer(Apply apply) : apply_(std::move(apply)) {}
  void apply(AlignedText& text) const override { apply_(text); }

 private:
  Apply apply_;
};

template <class Apply>
std::unique_ptr<Normalizer> simple_normalizer(Apply apply) {
  return std::make_unique<SimpleNormalizer<Apply>>(std::move(apply));
}

// What sentencepiece's "nmt" rules do to control characters and unusual spaces.
void nmt(AlignedText& text) {
  text.filter([](char32_t c) {
    return !((c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F);
  });
  text.map([](char32_t c) {
    const bool space = c == '\t' || c == '\n' || c == 0x0C || c == '\r' || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                       c == kReplacement;
    return space ? U' ' : c;
  });
}

std::unique_ptr<Normalizer> make_form(bool compatible, bool composed) {
  return simple_normalizer([form = NormalForm{compatible, composed}](AlignedText& text) { normalize(text, form); });
}

std::unique_ptr<Normalizer> make_normalizer(const std::string& type, Settings& settings) {
  if (type == "BertNormalizer") return std::make_unique<Bert>(settings);
  if (type == "Lowercase") return simple_normalizer(lower);
  if (type == "NFC") return make_form(false, true);
  if (type == "NFD") return make_form(false, false);
  if (type == "NFKC") return make_form(true, true);
  if (type == "NFKD") return make_form(true, false);
  if (type == "Nmt") return simple_normalizer(nmt);
  if (type == "Replace") return std::make_unique<Replace>(settings);
  if (type == "Sequence") return std::make_unique<Sequence>(settings);
  if (type == "StripAccents")
    return simple_normalizer([](AlignedText& text) { text.filter([](char32_t c) { return !is_mark(c); }); });
  if (type == "Strip") {
    const bool left = settings.flag("strip_left", true), right = settings.flag("strip_right", true);
    return simple_normalizer([=](AlignedText& text) { text.strip(left, right); });
  }
  if (type == "Prepend")
    return simple_normalizer([prefix = settings.need_text("prepend")](AlignedText& text) { text.prepend(prefix); });
  if (type == "Precompiled") {
    const std::string map = settings.text("precompiled_charsmap", "");
    if (map.empty()) return simple_normalizer([](AlignedText&) {});
    return make_charsmap(map, settings.where() + ".precompiled_charsmap");
  }
  settings.refuse_type(type, {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled",
                              "Prepend", "Replace", "Sequence", "Strip", "StripAccents"});
}

// Decomposed characters in canonical order: those that combine are sorted by their class.
std::vector<Change> decomposed(std::string_view text, bool compatible) {
  std::vector<Change> out;
  std::size_t starter = 0;  // the first one after the last that does not combine
  const auto sort_marks = [&] {
    std::stable_sort(
        out.begin() + static_cast<std::ptrdiff_t>(starter), out.end(),
        [](const Change& a, const Change& b) { return combining_class(a.code) < combining_class(b.code); });
  };
  const auto add = [&](char32_t code, int kind) {
    if (combining_class(code) == 0) {
      sort_marks();
      starter = out.size() + 1;
    }
    out.push_back({code, kind});
  };
  for_characters(text, [&](const Character& c, std::size_t) {
    const std::u32string_view parts = decomposition(c.code, compatible);
    if (parts.empty()) return add(c.code, 0);
    for (std::size_t i = 0; i < parts.size(); ++i) add(parts[i], i == 0 ? 0 : 1);
  });
  sort_marks();
  return out;
}

// Puts each mark into the last starter where the two have a composed form and no mark of the same class is between.
std::vector<Change> composed(const std::vector<Change>& parts) {
  std::vector<Change> out;
  std::ptrdiff_t starter = -1;
  int last_class = -1;  // of the marks after the starter; -1: none
  for (const Change& part : parts) {
    const int rank = combining_class(part.code);
    if (starter >= 0 && last_class < rank) {
      Change& base = out[static_cast<std::size_t>(starter)];
      if (const char32_t both = composition(base.code, part.code); both != 0) {
        base = {both, base.kind + part.kind - 1};
        continue;
      }
    }
    if (rank == 0) starter = static_cast<std::ptrdiff_t>(out.size());
    last_class = rank == 0 ? -1 : rank;
    out.push_back(part);
  }
  return out;
}

}  // namespace

void normalize(AlignedText& text, NormalForm form) {
  if (is_ascii(text.text())) return;
  std::vector<Change> changes = decomposed(text.text(), form.compatible);
  if (form.composed) changes = composed(changes);
  std::string made;
  for (const Change& change : changes) append_utf8(made, change.code);
  if (made != text.text()) text.transform(changes, 0);
}

std::unique_ptr<Normalizer> read_normalizer(Settings settings) {
  std::unique_ptr<Normalizer> made = make_normalizer(settings.need_text("type"), settings);
  settings.finish();
  return made;
}

}  // namespace fovea::text
