#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/statistics.h"
#include "fovea/error.h"
#include "io/csv.h"
#include "io/html_text.h"

namespace fovea {
namespace {

constexpr std::size_t kGap = 3, kNarrowGap = 2;  // spaces between columns

std::string cell_text(const TableCell& cell, Quantity quantity, const Unit& unit) {
  if (!cell.text.empty()) return cell.text;
  const double value = cell.value * unit.factor;
  const bool whole = quantity == Quantity::count && unit.factor == 1 && std::isfinite(value);
  std::string text = whole ? fmt::format("{:.0f}", value) : number_text(value);
  if (quantity == Quantity::ratio && !std::isnan(value)) text += "x";
  if (cell.spread > 0) text += " ± " + number_text_like(cell.spread * unit.factor, value);
  return text;
}

}  // namespace

Table::Table(std::vector<TableColumn> columns, std::string row_title)
    : columns_(std::move(columns)), row_title_(std::move(row_title)) {}

void Table::add(std::string name, std::vector<TableCell> cells) {
  if (cells.size() != columns_.size())
    fail(ErrorCode::internal, fmt::format("a row of {} cells in a table of {} columns", cells.size(), columns_.size()));
  rows_.push_back({std::move(name), std::move(cells)});
}

// The row whose value is better than every other, and apart from them; -1 if there is none. show() also wants that it
// reads so.
std::ptrdiff_t Table::best_row(std::size_t column) const {
  const Best best = columns_[column].best;
  if (best == Best::none || rows_.size() < 2) return -1;
  const double sign = best == Best::highest ? 1 : -1;
  const auto cell = [&](std::size_t row) -> const TableCell& { return rows_[row].cells[column]; };
  std::ptrdiff_t top = -1;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (std::isnan(cell(i).value)) continue;
    if (top < 0 || sign * cell(i).value > sign * cell(static_cast<std::size_t>(top)).value)
      top = static_cast<std::ptrdiff_t>(i);
  }
  for (std::size_t i = 0; top >= 0 && i < rows_.size(); ++i) {
    if (static_cast<std::ptrdiff_t>(i) == top || std::isnan(cell(i).value)) continue;
    const TableCell& winner = cell(static_cast<std::size_t>(top));
    if (!apart(winner.value, winner.margin, cell(i).value, cell(i).margin)) return -1;
  }
  return top;
}

Table::ShownColumn Table::show(std::size_t column) const {
  const TableColumn& spec = columns_[column];
  double largest = 0;
  for (const Row& row : rows_)
    if (const double size = std::abs(row.cells[column].value); std::isfinite(size)) largest = std::max(largest, size);
  const Unit unit = unit_for(spec.quantity, largest);
  const std::ptrdiff_t best = best_row(column);
  ShownColumn shown{spec.name, unit.text.empty() ? "" : fmt::format("({})", unit.text), {}};
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const TableCell& cell = rows_[i].cells[column];
    shown.cells.push_back({cell_text(cell, spec.quantity, unit) + (cell.missed ? " !" : ""),
                           static_cast<std::ptrdiff_t>(i) == best, cell.missed});
  }
  for (std::size_t i = 0; best >= 0 && i < rows_.size(); ++i) {  // 30.51 and 30.52 MB read alike
    Shown& winner = shown.cells[static_cast<std::size_t>(best)];
    if (static_cast<std::ptrdiff_t>(i) != best && shown.cells[i].text == winner.text) winner.best = false;
  }
  return shown;
}

std::vector<Table::ShownColumn> Table::show() const {
  std::vector<ShownColumn> columns;
  for (std::size_t i = 0; i < columns_.size(); ++i) columns.push_back(show(i));
  return columns;
}

std::vector<std::string> Table::ShownColumn::head_lines(Head style) const {
  if (style == Head::one_line) return {head()};
  if (style == Head::unit_below) return {name, unit};
  std::size_t widest = text_width(unit);
  for (const Shown& cell : cells) widest = std::max(widest, text_width(cell.text));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find(' ', begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    if (!lines.empty() && text_width(lines.back()) + 1 + text_width(word) <= widest)
      lines.back() += " " + word;
    else
      lines.push_back(word);
    begin = end + 1;
  }
  if (!unit.empty()) lines.push_back(unit);
  return lines;
}

std::size_t Table::ShownColumn::width(Head style) const {
  std::size_t most = 0;
  for (const std::string& line : head_lines(style)) most = std::max(most, text_width(line));
  for (const Shown& cell : cells) most = std::max(most, text_width(cell.text));
  return most;
}

std::string Table::text(const Terminal& terminal) const {
  const std::vector<ShownColumn> columns = show();
  const auto limit = static_cast<std::size_t>(terminal.width);
  std::size_t name_width = text_width(row_title_);
  for (const Row& row : rows_) name_width = std::max(name_width, text_width(row.name));
  BlockStyle style{.name_width = name_width, .gap = kGap, .head = Head::one_line, .colour = terminal.colour};
  const auto too_wide = [&] {
    std::size_t total = name_width;
    for (const ShownColumn& column : columns) total += style.gap + column.width(style.head);
    return total > limit;
  };
  if (too_wide()) style.head = Head::unit_below;
  if (too_wide()) {
    style.head = Head::stacked;
    style.gap = kNarrowGap;
  }
  std::string out;
  for (std::size_t first = 0; first < columns.size(); first += style.columns.size()) {
    style.columns = std::span(columns).subspan(first, 1);
    std::size_t width = name_width + style.gap + columns[first].width(style.head);
    for (std::size_t next = first + 1; next < columns.size(); ++next) {
      width += style.gap + columns[next].width(style.head);
      if (width > limit) break;
      style.columns = std::span(columns).subspan(first, next + 1 - first);
    }
    out += (first > 0 ? "\n" : "") + block(style);
  }
  return out;
}

// Some of the columns, with their header, which ends in the same line for all.
std::string Table::block(const BlockStyle& style) const {
  const std::string gap(style.gap, ' ');
  std::size_t height = 1;
  for (const ShownColumn& column : style.columns) height = std::max(height, column.head_lines(style.head).size());
  std::string out;
  for (std::size_t line = 0; line < height; ++line) {
    std::string text = pad_right(line == 0 ? row_title_ : "", style.name_width);
    for (const ShownColumn& column : style.columns) {
      const std::vector<std::string> lines = column.head_lines(style.head);
      const std::size_t above = style.head == Head::stacked ? height - lines.size() : 0;
      const bool there = line >= above && line - above < lines.size();
      text += gap + pad_left(there ? lines[line - above] : "", column.width(style.head));
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1);
    out += "\n";
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    out += pad_right(rows_[r].name, style.name_width);
    for (const ShownColumn& column : style.columns) {
      const Shown& cell = column.cells[r];
      const bool bold = cell.best && style.colour;
      out += gap;
      if (bold) out += "\033[1m";
      out += pad_left(cell.text, column.width(style.head));
      if (bold) out += "\033[0m";
    }
    out += "\n";
  }
  return out;
}

std::string Table::html() const {
  const std::vector<ShownColumn> columns = show();
  constexpr std::size_t kLong = 40;  // characters: from there on a text is read in lines, from the left
  const auto long_name = [&](const Row& row) { return text_width(row.name) > kLong; };
  const auto long_cell = [&](const Shown& cell) { return text_width(cell.text) > kLong; };
  const std::string_view name_kind = std::any_of(rows_.begin(), rows_.end(), long_name) ? " class=\"long\"" : "";
  std::string head = fmt::format("<th scope=\"col\"{}>{}</th>", name_kind, escape_html(row_title_)), body;
  std::vector<std::string_view> kinds;
  for (const ShownColumn& column : columns) {
    kinds.push_back(std::any_of(column.cells.begin(), column.cells.end(), long_cell) ? " class=\"long\"" : "");
    head += fmt::format("<th scope=\"col\"{}>{}</th>", kinds.back(), escape_html(column.head()));
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    body += fmt::format("<tr><th scope=\"row\"{}>{}</th>", name_kind, escape_html(rows_[r].name));
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const Shown& cell = columns[c].cells[r];
      const std::string_view kind = cell.missed ? " class=\"missed\"" : cell.best ? " class=\"best\"" : kinds[c];
      body += fmt::format("<td{}>{}</td>", kind, escape_html(cell.text));
    }
    body += "</tr>\n";
  }
  const bool texts = std::any_of(kinds.begin(), kinds.end(), [](std::string_view kind) { return !kind.empty(); });
  const std::string kind = texts || !name_kind.empty() ? " class=\"texts\"" : "";
  return "<div class=\"wide\"><table" + kind + ">\n<thead><tr>" + head + "</tr></thead>\n<tbody>\n" + body +
         "</tbody>\n</table></div>\n";
}

std::string Table::csv() const {
  std::vector<CsvCell> head = {row_title_.empty() ? std::string("name") : row_title_};
  for (const TableColumn& column : columns_) head.emplace_back(column.name);
  std::string out = csv_line(head);
  for (const Row& row : rows_) {
    std::vector<CsvCell> cells = {row.name};
    for (const TableCell& cell : row.cells) {
      if (!cell.text.empty())
        cells.emplace_back(cell.text);
      else if (std::isnan(cell.value))
        cells.emplace_back(std::monostate{});
      else
        cells.emplace_back(cell.value);
    }
    out += csv_line(cells);
  }
  return out;
}

}  // namespace fovea
