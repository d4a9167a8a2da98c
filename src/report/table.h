#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "report/numbers.h"
#include "report/terminal.h"

namespace fovea {

enum class Best : std::uint8_t { none, highest, lowest };

struct TableColumn {
  std::string name;
  Quantity quantity = Quantity::number;
  Best best = Best::none;  // which value is set in bold
};

// A number, with its spread when rounds or seeds were repeated, or a text. NaN is shown as "-".
struct TableCell {
  TableCell(double number, double spread_of_it = 0) : value(number), spread(spread_of_it), margin(spread_of_it) {}
  TableCell(std::string words) : text(std::move(words)) {}
  TableCell(const char* words) : text(words) {}

  double value = std::numeric_limits<double>::quiet_NaN();
  double spread = 0;  // shown behind it
  double margin = 0;  // half of the 95% interval of the value: bold stands only where two are apart (core/statistics.h)
  std::string text;
  bool missed = false;  // falls short of its bar: marked in every form
};

// A comparison: one row per thing compared, one column per measure. The same table prints on a terminal, in a page and
// as CSV.
class Table {
 public:
  explicit Table(std::vector<TableColumn> columns, std::string row_title = "");

  void add(std::string name, std::vector<TableCell> cells);
  bool empty() const { return rows_.empty(); }

  // Numbers right-aligned, units in the header, the best in bold where the terminal can. Too wide for the terminal, the
  // units move to a second line, then the words of the header below each other; still too wide, it becomes several
  // tables.
  std::string text(const Terminal& terminal) const;
  std::string html() const;
  std::string csv() const;  // unscaled values, in seconds, bytes and fractions

 private:
  struct Row {
    std::string name;
    std::vector<TableCell> cells;
  };
  struct Shown {
    std::string text;
    bool best = false, missed = false;
  };
  enum class Head : std::uint8_t { one_line, unit_below, stacked };
  struct ShownColumn {
    std::string name, unit;  // the unit in parentheses, or empty
    std::vector<Shown> cells;

    std::string head() const { return unit.empty() ? name : name + " " + unit; }
    // Its lines: all in one, the unit on a second, or the words of the name below each other.
    std::vector<std::string> head_lines(Head head) const;
    std::size_t width(Head head) const;
  };

  std::vector<ShownColumn> show() const;
  ShownColumn show(std::size_t column) const;
  std::ptrdiff_t best_row(std::size_t column) const;

  struct BlockStyle {
    std::size_t name_width, gap;
    Head head;
    bool colour;
    std::span<const ShownColumn> columns = {};
  };
  std::string block(const BlockStyle& style) const;

  std::vector<TableColumn> columns_;
  std::string row_title_;
  std::vector<Row> rows_;
};

}  // namespace fovea
