#include "data/text/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fovea/error.h"
#include "text/utf8.h"

namespace fovea {
namespace {

using Words = std::vector<std::string>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

// Signs that always stand alone; the apostrophe, comma, dash and full stop do not.
bool is_sign(char c) {
  const auto between = [c](char low, char high) { return c >= low && c <= high; };
  return between('{', '~') || between('[', '`') || between(' ', '&') || between('(', '+') || between(':', '@') ||
         c == '/';
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// The rules of mteval-v13a in its order, each from left to right without going back.
std::string separate_signs(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (is_sign(c))
      out.append({' ', c, ' '});
    else
      out += c;
  }
  return out;
}

// A pair of neighbours that match becomes what `write` makes of it, and both are done with.
template <class Match, class Write>
std::string rewrite_pairs(const std::string& text, Match match, Write write) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && match(text[i], text[i + 1])) {
      write(out, text[i], text[i + 1]);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

Words split(const std::string& text) {
  Words words;
  bool inside = false;
  text::for_characters(text, [&](const text::Character& c, std::size_t at) {
    const bool space = is_space(c.code);
    if (!space && !inside) words.emplace_back();
    if (!space) words.back().append(text, at, c.size);
    inside = !space;
  });
  return words;
}

void check_sizes(std::span<const std::string> translations, std::span<const std::string> references) {
  if (translations.size() != references.size())
    fail(ErrorCode::usage, fmt::format("{} translations for {} references", translations.size(), references.size()),
         "references");
}

// n-grams of `items` as texts, with how often they occur.
std::map<std::string, std::int64_t> count_ngrams(std::span<const std::string> items, std::size_t n) {
  std::map<std::string, std::int64_t> counts;
  for (std::size_t i = 0; i + n <= items.size(); ++i) {
    std::string key;
    for (std::size_t j = i; j < i + n; ++j) key += items[j] + '\x01';
    ++counts[key];
  }
  return counts;
}

struct Matches {
  std::int64_t shared = 0, ours = 0, theirs = 0;

  void add(std::span<const std::string> translation, std::span<const std::string> reference, std::size_t n) {
    const auto a = count_ngrams(translation, n), b = count_ngrams(reference, n);
    for (const auto& [key, count] : a) {
      ours += count;
      if (const auto found = b.find(key); found != b.end()) shared += std::min(count, found->second);
    }
    for (const auto& [key, count] : b) theirs += count;
  }
};

// Where no n-gram of some length matches, halves of one are counted, a quarter for the next length, and so on.
void fill_precisions(std::span<const Matches> matches, Bleu& bleu) {
  double smooth = 1.0;
  for (std::size_t n = 0; n < matches.size(); ++n) {
    if (matches[n].ours == 0) return;
    const auto ours = static_cast<double>(matches[n].ours);
    if (matches[n].shared > 0) {
      bleu.precisions[n] = 100.0 * static_cast<double>(matches[n].shared) / ours;
    } else {
      smooth *= 2.0;
      bleu.precisions[n] = 100.0 / (smooth * ours);
    }
  }
}

}  // namespace

std::vector<std::string> tokenize_13a(std::string_view text) {
  std::string line = replace_all(std::string(text), "<skipped>", "");
  line = replace_all(replace_all(line, "-\n", ""), "\n", " ");
  if (line.find('&') != std::string::npos)
    for (const auto& [from, to] : {std::pair("&quot;", "\""), {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
      line = replace_all(line, from, to);
  line = separate_signs(" " + line + " ");
  line = rewrite_pairs(
      line, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](std::string& out, char a, char b) {
        out.append({a, ' ', b, ' '});
      });
  line = rewrite_pairs(
      line, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& out, char a, char b) {
        out.append({' ', a, ' ', b});
      });
  line = rewrite_pairs(
      line, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) {
        out.append({a, ' ', b, ' '});
      });
  return split(line);
}

Bleu corpus_bleu(std::span<const std::string> translations, std::span<const std::string> references) {
  check_sizes(translations, references);
  std::array<Matches, 4> matches;
  Bleu bleu;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const Words ours = tokenize_13a(translations[i]), theirs = tokenize_13a(references[i]);
    for (std::size_t n = 0; n < matches.size(); ++n) matches[n].add(ours, theirs, n + 1);
    bleu.length += std::ssize(ours);
    bleu.reference_length += std::ssize(theirs);
  }
  const bool none = std::all_of(matches.begin(), matches.end(), [](const Matches& m) { return m.shared == 0; });
  const auto length = static_cast<double>(bleu.length), wanted = static_cast<double>(bleu.reference_length);
  if (bleu.length > 0) bleu.brevity = length < wanted ? std::exp(1.0 - wanted / length) : 1.0;
  if (none) return bleu;
  fill_precisions(matches, bleu);
  double logs = 0.0;
  for (const double precision : bleu.precisions) logs += std::log(precision);
  bleu.score = bleu.brevity * std::exp(logs / 4.0);
  return bleu;
}

double corpus_chrf(std::span<const std::string> translations, std::span<const std::string> references) {
  constexpr double kBeta = 2.0, kTiny = 1e-16;
  check_sizes(translations, references);
  std::array<Matches, 6> matches;
  const auto characters = [](const std::string& text) {
    Words out;
    text::for_characters(text, [&](const text::Character& c, std::size_t at) {
      if (!is_space(c.code)) out.push_back(text.substr(at, c.size));
    });
    return out;
  };
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const Words ours = characters(translations[i]), theirs = characters(references[i]);
    for (std::size_t n = 0; n < matches.size(); ++n)
      if (theirs.size() > n) matches[n].add(ours, theirs, n + 1);  // a reference too short for n-grams asks for none
  }
  double precision = 0.0, recall = 0.0;
  int orders = 0;
  for (const Matches& m : matches) {
    if (m.ours == 0 || m.theirs == 0) continue;
    precision += static_cast<double>(m.shared) / static_cast<double>(m.ours);
    recall += static_cast<double>(m.shared) / static_cast<double>(m.theirs);
    ++orders;
  }
  if (orders == 0 || precision + recall < kTiny) return 0.0;
  precision /= orders;
  recall /= orders;
  return 100.0 * (1.0 + kBeta * kBeta) * precision * recall / (kBeta * kBeta * precision + recall);
}

}  // namespace fovea
