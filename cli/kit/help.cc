#include "cli/kit/help.h"

#include <algorithm>
#include <sstream>

namespace fovea::cli {
namespace {

constexpr std::size_t kLongestName = 24;  // a longer name pushes its help to the next line

struct Entry {
  std::string name, help;
};

std::string entries_text(const std::string& title, const std::vector<Entry>& entries) {
  std::size_t column = 0;
  for (const Entry& e : entries)
    if (e.name.size() <= kLongestName) column = std::max(column, e.name.size());
  column += 4;
  std::string out = "\n" + title + "\n";
  for (const Entry& e : entries) {
    std::string line = "  " + e.name;
    line += line.size() + 2 <= column ? std::string(column - line.size(), ' ') : "\n" + std::string(column, ' ');
    out += line + wrap(e.help, kPageWidth - column, column) + "\n";
  }
  return out;
}

std::vector<Entry> options_of(const Arguments& verb, bool common) {
  std::vector<Entry> entries;
  for (const Option& option : verb.options()) {
    if (option.is_common() != common) continue;
    const std::string fallback = option.shown_default().empty() ? "" : " [" + option.shown_default() + "]";
    entries.push_back({option.usage(), option.help() + fallback});
  }
  return entries;
}

// "Shows the settings. --json prints more." is "Shows the settings." where many verbs share a page.
std::string first_sentence(const std::string& text) {
  const std::size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

std::vector<Entry> verbs_of(const Arguments& verb) {
  std::vector<Entry> entries;
  for (const Arguments& below : verb.verbs())
    entries.push_back({below.text().name, first_sentence(below.text().summary)});
  return entries;
}

}  // namespace

std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  std::istringstream words(text);
  std::string out, word;
  std::size_t used = 0;
  while (words >> word) {
    if (used > 0 && used + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    }
    out += (used > 0 ? " " : "") + word;
    used += (used > 0 ? 1 : 0) + word.size();
  }
  return out;
}

std::string help_page(const Arguments& verb) {
  const VerbText text = verb.text();
  std::string out = "examples\n";
  for (const std::string& example : text.examples) out += "  " + example + "\n";
  out += "\n" + wrap(text.summary, kPageWidth, 0) + "\n";
  if (const auto verbs = verbs_of(verb); !verbs.empty()) out += entries_text("verbs", verbs);
  if (const auto options = options_of(verb, false); !options.empty()) out += entries_text("options", options);
  std::string common;
  for (const Entry& e : options_of(verb, true)) common += (common.empty() ? "" : ", ") + e.name;
  out += "\n" + wrap("also " + common, kPageWidth - 5, 5) + "\n";
  if (verb.is_program()) out += "exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad input data, 130 interrupted\n";
  return out;
}

}  // namespace fovea::cli
