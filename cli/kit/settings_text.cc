#include "cli/kit/settings_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/kit/help.h"
#include "report/terminal.h"

namespace fovea::cli {
namespace {

constexpr std::size_t kWidestName = 22, kWidestValue = 14, kGap = 2;

std::string section_of(const FieldHelp& setting) {
  const std::size_t dot = setting.path.find('.');
  return dot == std::string::npos ? "" : setting.path.substr(0, dot);
}

std::string name_in_section(const FieldHelp& setting) {
  const std::string section = section_of(setting);
  return section.empty() ? setting.path : setting.path.substr(section.size() + 1);
}

std::string meaning(const FieldHelp& setting) {
  const bool yes_or_no = setting.choices.size() == 2 && setting.choices.front() == "true";
  if (setting.choices.empty() || yes_or_no) return setting.help;
  return fmt::format("{}: {}", setting.help, fmt::join(setting.choices, ", "));
}

// A cell that is too long for its column ends its line, and what follows begins on the next.
void put(std::string& out, std::size_t& column, const std::string& text, std::size_t end) {
  out += text;
  column += text_width(text);
  if (column + kGap > end) {
    out += "\n";
    column = 0;
  }
  out += std::string(end - column, ' ');
  column = end;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::string settings_text(const std::vector<FieldHelp>& settings, std::size_t width) {
  std::size_t names = 4, values = 4;
  for (const FieldHelp& setting : settings) {
    if (const std::size_t size = name_in_section(setting).size(); size <= kWidestName) names = std::max(names, size);
    if (const std::size_t size = setting.value.size(); size <= kWidestValue) values = std::max(values, size);
  }
  const std::size_t value_column = kGap + names + kGap, meaning_column = value_column + values + kGap;
  std::string out, section = ".";
  for (const FieldHelp& setting : settings) {
    if (section_of(setting) != section) {
      section = section_of(setting);
      out += fmt::format("{}--set {}NAME=VALUE\n", out.empty() ? "" : "\n", section.empty() ? "" : section + ".");
    }
    std::size_t column = 0;
    put(out, column, "  " + name_in_section(setting), value_column);
    put(out, column, setting.value.empty() ? "\"\"" : setting.value, meaning_column);
    out += wrap(meaning(setting), width - meaning_column, meaning_column) + "\n";
  }
  return out;
}

Json settings_json(const std::vector<FieldHelp>& settings) {
  Json all = Json::array();
  for (const FieldHelp& setting : settings) {
    Json one{{"name", setting.path}, {"value", setting.value}, {"meaning", setting.help}};
    if (!setting.choices.empty())
      one["choices"] = setting.choices;
    else if (!setting.allowed.empty())
      one["allowed"] = setting.allowed;
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<FieldHelp> find_settings(const std::vector<FieldHelp>& settings, const std::string& word) {
  std::vector<FieldHelp> found;
  const std::string wanted = lower_case(word);
  for (const FieldHelp& setting : settings)
    if (lower_case(setting.path).find(wanted) != std::string::npos ||
        lower_case(meaning(setting)).find(wanted) != std::string::npos)
      found.push_back(setting);
  return found;
}

}  // namespace fovea::cli
