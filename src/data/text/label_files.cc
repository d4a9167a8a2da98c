#include "data/text/label_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "core/nearest.h"

namespace fovea {
namespace {

constexpr std::int64_t kMostClasses = 10000;

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<float> number(std::string_view text) {
  float value = 0.0F;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::optional<std::size_t> column(std::span<const std::string_view> fields,
                                  std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto found = std::find(fields.begin(), fields.end(), name);
    if (found != fields.end()) return static_cast<std::size_t>(found - fields.begin());
  }
  return {};
}

}  // namespace

std::optional<LabelColumns> LabelColumns::of(std::span<const std::string_view> fields) {
  LabelColumns columns;
  columns.label = column(fields, {"label", "Quality", "score"});
  columns.second = column(fields, {"sentence2", "#2 String"});
  columns.first = column(fields, {"sentence1", "#1 String", "sentence", "text"});
  if (const auto question = column(fields, {"question"}); question && columns.first) {
    columns.second = columns.first;
    columns.first = question;
  }
  columns.fields = fields.size();
  columns.header = true;
  if (columns.first) return columns;
  const auto is_number = [&](std::size_t i) { return i < fields.size() && integer(fields[i]).has_value(); };
  const auto plain = [](std::size_t label, std::size_t text) {
    return LabelColumns{.label = label, .first = text, .second = {}, .fields = text + 1, .header = false};
  };
  if (is_number(0) && is_number(1) && is_number(2) && fields.size() >= 4) return plain(0, 3);
  if (fields.size() >= 2 && number(fields[0])) return plain(0, 1);
  if (is_number(1) && fields.size() == 4) return plain(1, 3);
  return {};
}

LabelColumns LabelColumns::named() { return {.label = 0, .first = 1, .second = {}, .fields = 2, .header = false}; }

bool begin_with_names(std::string_view text) {
  constexpr std::size_t kLongestName = 64;
  std::set<std::string_view> names;
  std::size_t lines = 0;
  for (; text.find('\n') != std::string_view::npos; ++lines) {  // what a cut left of the last line does not count
    const auto fields = tab_fields(take_line(text));
    if (fields.size() != 2 || fields[0].empty() || fields[0].size() > kLongestName) return false;
    names.insert(fields[0]);
  }
  return lines > 1 && 2 * names.size() <= lines + 1;
}

LabelTable read_labels(const TextLines& file, const LabelColumns& columns) {
  LabelTable table;
  if (file.size() == 0) return table;
  const std::size_t expected = columns.fields;
  for (std::size_t line = columns.header ? 1 : 0; line < file.size(); ++line) {
    const std::vector<std::string_view> fields = tab_fields(file[line], columns.header ? SIZE_MAX : expected);
    if (fields.size() != expected)
      fail(ErrorCode::bad_input, fmt::format("expected {} fields, got {}", expected, fields.size()), file.where(line),
           "fields are separated by tabs");
    const auto add = [&](std::size_t from, std::vector<std::string_view>& to) {
      if (fields[from].empty())
        fail(ErrorCode::bad_input, fmt::format("field {} is empty", from + 1), file.where(line));
      to.push_back(fields[from]);
    };
    add(*columns.first, table.first);
    add(*columns.label, table.labels);
    if (columns.second) add(*columns.second, table.second);
    table.lines.push_back(line);
  }
  return table;
}

bool asks_numbers(std::span<const std::string_view> labels, std::string_view answers) {
  constexpr std::array<std::string_view, 2> kAnswers{"classes", "numbers"};
  if (!answers.empty()) return place_of_name(answers, kAnswers, "kind of answers", "data.answers") == 1;
  return std::all_of(labels.begin(), labels.end(), [](std::string_view x) { return number(x).has_value(); }) &&
         std::any_of(labels.begin(), labels.end(), [](std::string_view x) { return !integer(x); });
}

float number_of(std::string_view label, const std::string& where) {
  if (const auto value = number(label)) return *value;
  fail(ErrorCode::bad_input, fmt::format("\"{}\" is no number, and numbers are asked for", label.substr(0, 40)), where,
       "--set data.answers=classes");
}

LabelNames::LabelNames(std::span<const std::string_view> labels) {
  for (const std::string_view label : labels) {
    ids_.emplace(label, 0);
    if (size() > kMostClasses)
      fail(ErrorCode::bad_input, fmt::format("more than {} different labels: are these classes?", kMostClasses),
           "data.answers", "--set data.answers=numbers, where they are");
  }
  std::vector<std::string> names;
  for (const auto& [name, id] : ids_) names.push_back(name);
  const bool numbers =
      std::all_of(names.begin(), names.end(), [](const std::string& n) { return integer(n).has_value(); });
  if (numbers)
    std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return *integer(a) < *integer(b); });
  for (std::size_t i = 0; i < names.size(); ++i) ids_[names[i]] = static_cast<std::int32_t>(i);
}

std::vector<std::string> LabelNames::names() const {
  std::vector<std::string> names(ids_.size());
  for (const auto& [name, id] : ids_) names[static_cast<std::size_t>(id)] = name;
  return names;
}

std::int32_t LabelNames::id(std::string_view label, const std::string& where) const {
  const auto found = ids_.find(label);
  if (found != ids_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, id] : ids_) names.push_back(name);
  if (names.size() > 10) names.resize(10);
  fail(ErrorCode::bad_input, fmt::format("the label \"{}\" does not occur in the training data", label.substr(0, 40)),
       where, fmt::format("one of {}", fmt::join(names, ", ")));
}

}  // namespace fovea
