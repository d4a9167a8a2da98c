#include "data/text/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "core/nearest.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/xz.h"
#include "text/text_file.h"

namespace fovea {
namespace {

constexpr std::string_view kLabels[] = {"label",     "labels", "class",  "category", "target",
                                        "sentiment", "stars",  "rating", "score"};
constexpr std::string_view kTexts[] = {"text", "sentence", "review", "comment", "content", "body", "message", "title"};
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"sentence1", "sentence2"}, {"text1", "text2"}, {"question1", "question2"}, {"premise", "hypothesis"}};

std::string plain_name(const Path& path) {
  std::string name = path.filename().string();
  if (name.ends_with(".xz")) name.resize(name.size() - 3);
  return name;
}

bool ends(const Path& path, std::string_view end) { return plain_name(path).ends_with(end); }

// Names that differ in case alone are the same.
std::optional<std::size_t> column_named(const std::vector<std::string>& columns, std::string_view name) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool same = columns[i].size() == name.size() &&
                      std::equal(name.begin(), name.end(), columns[i].begin(),
                                 [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
    if (same) return i;
  }
  return {};
}

std::string value_text(const Json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return {};
  if (value.is_object() || value.is_array())
    fail(ErrorCode::bad_input, fmt::format("a value is {}, not a text or a number", json_kind(value)), where,
         "objects without others inside");
  return value.dump();
}

// Columns are those of the first line; what a later one lacks is empty.
Records read_json_lines(const Path& path, std::string_view text) {
  Records records{path.string(), {}, {}};
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string_view one = take_line(text);
    if (one.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", path.string(), line);
    const Json object = parse_json(one, where);
    if (!object.is_object())
      fail(ErrorCode::bad_input, fmt::format("expected an object, got {}", json_kind(object)), where,
           "a line such as {\"text\": \"...\", \"label\": \"...\"}");
    if (records.columns.empty())
      for (const auto& item : object.items()) records.columns.push_back(item.key());
    std::vector<std::string>& row = records.rows.emplace_back();
    for (const std::string& column : records.columns)
      row.push_back(object.contains(column) ? value_text(object[column], where) : std::string());
  }
  return records;
}

Records read_tab_lines(const Path& path, std::string_view text) {
  Records records{path.string(), {}, {}};
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::vector<std::string_view> fields = tab_fields(take_line(text));
    if (line == 1) {
      records.columns.assign(fields.begin(), fields.end());
      continue;
    }
    if (fields.size() != records.columns.size())
      fail(ErrorCode::bad_input, fmt::format("expected {} fields, got {}", records.columns.size(), fields.size()),
           fmt::format("{}:{}", path.string(), line), "fields are separated by tabs");
    records.rows.emplace_back(fields.begin(), fields.end());
  }
  return records;
}

Records parse_records(const Path& path, std::string text) {
  if (ends(path, ".jsonl")) return read_json_lines(path, text);
  if (ends(path, ".tsv")) return read_tab_lines(path, text);
  if (!text.ends_with('\n')) text += '\n';
  CsvTable table = parse_csv(text, path.string());
  return {path.string(), std::move(table.columns), std::move(table.rows)};
}

// A column by the name that a setting gives, else by its usual names.
std::optional<std::size_t> chosen_column(const std::vector<std::string>& columns, const std::string& setting,
                                         std::span<const std::string_view> usual) {
  if (!setting.empty()) return column_named(columns, setting);
  for (const std::string_view name : usual)
    if (const auto found = column_named(columns, name)) return found;
  return {};
}

}  // namespace

std::string Records::where(std::size_t row) const { return fmt::format("{}, row {}", path, row + 1); }

bool is_record_file(const Path& path) { return ends(path, ".csv") || ends(path, ".jsonl"); }

Records read_records(const Path& path, std::size_t cap) { return parse_records(path, read_text(path, cap)); }

std::vector<std::string> record_columns(const Path& path) {
  constexpr std::size_t kLooked = std::size_t{1} << 20;
  const std::string head = read_head(path, kLooked);
  std::string_view rest = head.starts_with("\xef\xbb\xbf") ? std::string_view(head).substr(3) : std::string_view(head);
  const std::string_view line = take_line(rest);
  try {
    return parse_records(path, std::string(line) + "\n").columns;
  } catch (const Error&) {
    return {};  // reading all of it tells what is wrong
  }
}

std::optional<RecordColumns> find_columns(const std::vector<std::string>& columns, const DataSettings& settings) {
  RecordColumns found;
  const auto label = chosen_column(columns, settings.label_column, kLabels);
  auto first = chosen_column(columns, settings.text_column, {});
  if (settings.text_column.empty())
    for (const auto& [one, other] : kPairs)
      if (const auto a = column_named(columns, one), b = column_named(columns, other); a && b && !found.second) {
        first = a;
        found.second = b;
      }
  if (!first) first = chosen_column(columns, settings.text_column, kTexts);
  if (!settings.second_column.empty()) found.second = column_named(columns, settings.second_column);
  if (!label || !first || (!settings.second_column.empty() && !found.second)) return {};
  found.label = *label;
  found.first = *first;
  return found;
}

RecordColumns require_columns(const std::vector<std::string>& columns, const DataSettings& settings,
                              const std::string& where) {
  if (const auto found = find_columns(columns, settings)) return *found;
  for (const auto& [name, value] :
       {std::pair("label_column", settings.label_column), std::pair("text_column", settings.text_column),
        std::pair("second_column", settings.second_column)})
    if (!value.empty() && !column_named(columns, value)) {
      const std::vector<std::string_view> known(columns.begin(), columns.end());
      const std::string_view near = nearest_name(value, known);
      fail(ErrorCode::usage, fmt::format("no column \"{}\"; there are {}", value, fmt::join(columns, ", ")), where,
           fmt::format("--set data.{}={}", name, near.empty() ? columns.front() : std::string(near)));
    }
  fail(ErrorCode::usage, fmt::format("which columns are label and text? There are {}", fmt::join(columns, ", ")), where,
       "--set data.label_column=NAME --set data.text_column=NAME");
}

}  // namespace fovea
