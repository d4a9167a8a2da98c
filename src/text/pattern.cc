#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>

#include <array>

#include "fovea/error.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// The tokenisers' expressions are Oniguruma's, whose \s, \w and \h mean other sets of characters than PCRE2's.
std::string translated(const std::string& expression, const std::string& where) {
  std::string out;
  int brackets = 0;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char next = expression[++i];
      const std::string word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
      if (next == 's')
        out += "\\p{White_Space}";
      else if (next == 'S')
        out += "\\P{White_Space}";
      else if (next == 'w')
        out += brackets > 0 ? word : "[" + word + "]";
      else if (next == 'W' && brackets == 0)
        out += "[^" + word + "]";
      else if (next == 'h')
        out += brackets > 0 ? "0-9a-fA-F" : "[0-9a-fA-F]";
      else
        (out += c) += next;
      continue;
    }
    if (c == '[') ++brackets;
    if (c == ']' && brackets > 0) --brackets;
    if (brackets > 0 && expression.compare(i, 2, "&&") == 0)
      fail(ErrorCode::unsupported, "an intersection (&&) of character classes", where);
    if (brackets > 1 && c == '[' && expression.compare(i, 2, "[:") != 0)
      fail(ErrorCode::unsupported, "a character class inside another", where, "list the characters in one class");
    out += c;
  }
  return out;
}

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Pattern Pattern::regex(const std::string& expression, const std::string& where) {
  const std::string ours = translated(expression, where);
  int error = 0;
  std::size_t at = 0;
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  const auto code = std::make_shared<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(ours.data()), ours.size(), kOptions, &error, &at, nullptr);
  if (code->code == nullptr)
    fail(ErrorCode::bad_input, "not a regular expression: " + message_of(error) + ": " + expression, where);
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // where it cannot, matching is slower
  Pattern pattern;
  pattern.code_ = code;
  return pattern;
}

Pattern Pattern::plain(std::string text) {
  Pattern pattern;
  pattern.plain_ = std::move(text);
  return pattern;
}

Pattern Pattern::read(const JsonMap& json, const std::string& where) {
  if (json.is_object() && json.size() == 1 && json.front().is_string()) {
    const auto text = json.front().get<std::string>();
    if (json.contains("Regex")) return regex(text, where);
    if (json.contains("String")) return plain(text);
  }
  fail(ErrorCode::bad_input, "expected {\"String\": ...} or {\"Regex\": ...}", where);
}

void Pattern::find(std::string_view text, Range within, std::vector<Range>& matches) const {
  const std::string_view subject = text.substr(within.begin, within.size());
  if (code_ == nullptr) {
    for (std::size_t at = 0; !plain_.empty() && (at = subject.find(plain_, at)) != std::string_view::npos;) {
      const auto begin = within.begin + static_cast<std::uint32_t>(at);
      at += plain_.size();
      matches.push_back({begin, within.begin + static_cast<std::uint32_t>(at)});
    }
    return;
  }
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create_from_pattern(code_->code, nullptr));
  if (data == nullptr) fail(ErrorCode::out_of_memory, "out of memory for a regular expression");
  const auto match = [&](std::size_t at, std::uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                       PCRE2_NO_UTF_CHECK | options, data.get(), nullptr);
  };
  for (std::size_t at = 0; at <= subject.size();) {
    int found = match(at, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(at, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0) fail(ErrorCode::bad_input, "a regular expression of the tokeniser failed: " + message_of(found));
    const std::size_t* bounds = pcre2_get_ovector_pointer(data.get());
    matches.push_back(
        {within.begin + static_cast<std::uint32_t>(bounds[0]), within.begin + static_cast<std::uint32_t>(bounds[1])});
    at = bounds[1];
    if (bounds[0] == bounds[1]) at += at < subject.size() ? decode(subject, at).size : 1;
  }
}

Behaviour read_behaviour(Settings& settings, Behaviour fallback) {
  constexpr std::array<std::string_view, 5> kNames{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                   "Contiguous"};
  const std::optional<std::string> name = settings.maybe_text("behavior");
  if (!name) return fallback;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == *name) return static_cast<Behaviour>(i);
  settings.refuse("unknown behaviour \"" + *name + "\"", "behavior");
}

void cut(Range whole, const std::vector<Range>& matches, Cut how, std::vector<Range>& pieces) {
  struct Part {
    Range range;
    bool separator;
  };
  std::vector<Part> parts;
  const auto add = [&](Range range, bool separator) {
    if (!range.empty()) parts.push_back({range, separator});
  };
  std::uint32_t done = whole.begin;
  for (const Range& match : matches) {
    add({done, match.begin}, how.invert);
    add(match, !how.invert);
    done = match.end;
  }
  add({done, whole.end}, how.invert);
  // Whether a part goes on where the one before it ended.
  const auto joins = [&](std::size_t i) {
    const bool before = parts[i - 1].separator, now = parts[i].separator;
    switch (how.behaviour) {
      case Behaviour::previous: return now && !before;
      case Behaviour::next: return before && !now;
      case Behaviour::contiguous: return now == before;
      default: return false;
    }
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (how.behaviour == Behaviour::removed && parts[i].separator) continue;
    if (i > 0 && joins(i))
      pieces.back().end = parts[i].range.end;
    else
      pieces.push_back(parts[i].range);
  }
}

}  // namespace fovea::text
