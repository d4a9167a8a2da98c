#include "io/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/nearest.h"
#include "fovea/error.h"

namespace fovea {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

struct CellText {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
};

// Takes one row off the text; false when the text ends inside it.
bool take_row(std::string_view& text, std::vector<std::string>& row) {
  row.assign(1, {});
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      row.back() += text[++i];
    else if (c == '"')
      inside = !inside;
    else if (!inside && c == ',')
      row.emplace_back();
    else if (!inside && c == '\n') {
      text.remove_prefix(i + 1);
      return true;
    } else if (inside || c != '\r')
      row.back() += c;
  }
  return false;
}

double number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? value : std::numeric_limits<double>::quiet_NaN();
}

std::vector<CsvCell> cells_of(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

}  // namespace

std::string csv_line(const std::vector<CsvCell>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i ? "," : "") + std::visit(CellText{}, cells[i]);
  return line + "\n";
}

CsvLog::CsvLog(const Path& path, const std::vector<std::string>& columns) : CsvLog(path, columns.size()) {
  write_file(path, csv_line(cells_of(columns)));
  file_ = open_for_append(path);
}

CsvLog CsvLog::resume(const Path& path, const std::vector<std::string>& columns, double last) {
  if (!is_there(path)) return CsvLog(path, columns);
  CsvTable old = read_csv(path);
  if (old.columns.size() > columns.size() || !std::equal(old.columns.begin(), old.columns.end(), columns.begin()))
    fail(ErrorCode::bad_input, "the columns of this file are not those of this run", path.string(),
         "another output folder, or move the file away");
  std::string kept = csv_line(cells_of(columns));
  for (std::vector<std::string>& row : old.rows) {
    row.resize(columns.size());  // what an older version did not write stays empty
    if (number(row.front()) <= last) kept += csv_line(cells_of(row));
  }
  write_file(path, kept);
  CsvLog log(path, columns.size());
  log.file_ = open_for_append(path);
  return log;
}

void CsvLog::row(const std::vector<CsvCell>& cells) {
  if (cells.size() != columns_)
    fail(ErrorCode::internal, fmt::format("a row of {} cells in a table of {} columns", cells.size(), columns_),
         path_.string());
  append(file_, csv_line(cells), path_);
}

std::vector<double> CsvTable::numbers(std::string_view column) const {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] != column) continue;
    std::vector<double> values;
    for (const std::vector<std::string>& row : rows) values.push_back(number(row[i]));
    return values;
  }
  const std::vector<std::string_view> names(columns.begin(), columns.end());
  fail(ErrorCode::usage, fmt::format("there is no column \"{}\"", column), {}, name_hint(column, names));
}

CsvTable parse_csv(std::string_view text, const std::string& where) {
  CsvTable table;
  if (!take_row(text, table.columns)) fail(ErrorCode::bad_input, "no header line", where);
  table.rows.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  std::vector<std::string> row;
  while (take_row(text, row)) {
    if (row.size() != table.columns.size())
      fail(ErrorCode::bad_input, fmt::format("expected {} cells, got {}", table.columns.size(), row.size()),
           fmt::format("{}, row {}", where, table.rows.size() + 1));
    table.rows.push_back(std::move(row));
  }
  return table;
}

CsvTable read_csv(const Path& path) { return parse_csv(read_file(path), path.string()); }

}  // namespace fovea
