#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/file.h"

namespace fovea {

// monostate is an empty cell.
using CsvCell = std::variant<std::monostate, std::int64_t, double, std::string>;

std::string csv_line(const std::vector<CsvCell>& cells);  // with its line end; numbers read back exactly

// A file of measurements that grows by one row at a time; every row is handed to the system at once, so a kill loses
// nothing that was written before.
class CsvLog {
 public:
  CsvLog(const Path& path, const std::vector<std::string>& columns);  // starts afresh
  // Continues a file that has the same columns, or the first of them: keeps the rows whose first column, a number, is
  // at most `last`, drops later ones and one that was cut off. Without a file, starts one.
  static CsvLog resume(const Path& path, const std::vector<std::string>& columns, double last);

  void row(const std::vector<CsvCell>& cells);
  const Path& path() const { return path_; }

 private:
  CsvLog(const Path& path, std::size_t columns) : path_(path), columns_(columns) {}

  Path path_;
  std::size_t columns_;
  FileHandle file_;
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;

  // A column as numbers; NaN where a cell is empty or is not a number. Refuses an unknown name.
  std::vector<double> numbers(std::string_view column) const;
};

// Refuses rows whose number of cells differs from the header's. A last line without its end is dropped: its writer was
// interrupted.
CsvTable parse_csv(std::string_view text, const std::string& where);
CsvTable read_csv(const Path& path);

}  // namespace fovea
