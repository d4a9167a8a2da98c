#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/error.h"
#include "io/csv.h"
#include "io/html_text.h"

namespace fovea {
namespace {

constexpr std::size_t kGap = 3;  // spaces between columns

std::string cell_text(const TableCell& cell, Quantity quantity, const Unit& unit) {
  if (!cell.text.empty()) return cell.text;
  const double value = cell.value * unit.factor;
  std::string text = number_text(value);
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

// The row whose value is better than every other by more than both spreads; -1 if there is none.
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
    if (sign * (winner.value - cell(i).value) <= std::max(winner.spread, cell(i).spread)) return -1;
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
  return shown;
}

std::vector<Table::ShownColumn> Table::show() const {
  std::vector<ShownColumn> columns;
  for (std::size_t i = 0; i < columns_.size(); ++i) columns.push_back(show(i));
  return columns;
}

std::size_t Table::ShownColumn::width(bool two_lines) const {
  std::size_t most = two_lines ? std::max(text_width(name), text_width(unit)) : text_width(head());
  for (const Shown& cell : cells) most = std::max(most, text_width(cell.text));
  return most;
}

std::string Table::text(const Terminal& terminal) const {
  const std::vector<ShownColumn> columns = show();
  const auto limit = static_cast<std::size_t>(terminal.width);
  std::size_t name_width = text_width(row_title_);
  for (const Row& row : rows_) name_width = std::max(name_width, text_width(row.name));
  std::size_t total = name_width;
  for (const ShownColumn& column : columns) total += kGap + column.width(false);

  BlockStyle style{.name_width = name_width, .two_lines = total > limit, .colour = terminal.colour};
  std::string out;
  for (std::size_t first = 0; first < columns.size(); first += style.columns.size()) {
    style.columns = std::span(columns).subspan(first, 1);
    std::size_t width = name_width + kGap + columns[first].width(style.two_lines);
    for (std::size_t next = first + 1; next < columns.size(); ++next) {
      width += kGap + columns[next].width(style.two_lines);
      if (width > limit) break;
      style.columns = std::span(columns).subspan(first, next + 1 - first);
    }
    out += (first > 0 ? "\n" : "") + block(style);
  }
  return out;
}

// Some of the columns, with their header.
std::string Table::block(const BlockStyle& style) const {
  const std::string gap(kGap, ' ');
  std::string out = pad_right(row_title_, style.name_width), units = std::string(style.name_width, ' ');
  for (const ShownColumn& column : style.columns) {
    const std::size_t width = column.width(style.two_lines);
    out += gap + pad_left(style.two_lines ? column.name : column.head(), width);
    units += gap + pad_left(column.unit, width);
  }
  out += "\n";
  if (style.two_lines) out += units.substr(0, units.find_last_not_of(' ') + 1) + "\n";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    out += pad_right(rows_[r].name, style.name_width);
    for (const ShownColumn& column : style.columns) {
      const Shown& cell = column.cells[r];
      const bool bold = cell.best && style.colour;
      out += gap;
      if (bold) out += "\033[1m";
      out += pad_left(cell.text, column.width(style.two_lines));
      if (bold) out += "\033[0m";
    }
    out += "\n";
  }
  return out;
}

std::string Table::html() const {
  std::string head = "<th scope=\"col\">" + escape_html(row_title_) + "</th>";
  const std::vector<ShownColumn> columns = show();
  for (const ShownColumn& column : columns) head += "<th scope=\"col\">" + escape_html(column.head()) + "</th>";
  std::string body;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    body += "<tr><th scope=\"row\">" + escape_html(rows_[r].name) + "</th>";
    for (const ShownColumn& column : columns) {
      const Shown& cell = column.cells[r];
      const char* kind = cell.missed ? " class=\"missed\"" : cell.best ? " class=\"best\"" : "";
      body += fmt::format("<td{}>{}</td>", kind, escape_html(cell.text));
    }
    body += "</tr>\n";
  }
  return "<div class=\"wide\"><table>\n<thead><tr>" + head + "</tr></thead>\n<tbody>\n" + body +
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
