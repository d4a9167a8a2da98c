#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace fovea::cli {
namespace {

constexpr std::size_t kWidth = 80;
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
    out += line + wrap(e.help, kWidth - column, column) + "\n";
  }
  return out;
}

std::string option_name(const CLI::Option& option) {
  std::string name = option.get_positional() ? option.get_single_name() : option.get_name(false, true);
  std::replace(name.begin(), name.end(), ',', ' ');
  const bool takes_value = !option.get_type_name().empty() && option.nonpositional();
  return takes_value ? name + " " + option.get_type_name() : name;
}

std::vector<Entry> options_of(const CLI::App& app, bool common) {
  std::vector<Entry> entries;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty() || (option->get_group() == kCommonGroup) != common) continue;
    const std::string fallback = option->get_default_str().empty() ? "" : " [" + option->get_default_str() + "]";
    entries.push_back({option_name(*option), option->get_description() + fallback});
  }
  return entries;
}

std::vector<Entry> verbs_of(const CLI::App& app) {
  std::vector<Entry> entries;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    entries.push_back({verb->get_name(), verb->get_description()});
  return entries;
}

std::string examples_of(const CLI::App& app) {
  std::string out;
  std::istringstream lines(app.get_footer());
  for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
  return out;
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

std::string HelpPage::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  std::string out = "examples\n" + examples_of(*app) + "\n" + wrap(app->get_description(), kWidth, 0) + "\n";
  if (const auto verbs = verbs_of(*app); !verbs.empty()) out += entries_text("verbs", verbs);
  if (const auto options = options_of(*app, false); !options.empty()) out += entries_text("options", options);
  std::string common;
  for (const Entry& e : options_of(*app, true)) common += (common.empty() ? "" : ", ") + e.name;
  out += "\n" + wrap("also " + common, kWidth, 5) + "\n";
  if (app->get_parent() == nullptr)
    out += "exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad input data, 130 interrupted\n";
  return out;
}

}  // namespace fovea::cli
