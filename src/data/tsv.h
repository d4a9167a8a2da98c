#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/error.h"
#include "io/file.h"

namespace fovea {

// Takes the next line off the text, without its end.
std::string_view take_line(std::string_view& text);

// A tab-separated file with one header line, mapped into memory; no quoting, lines end in \n or \r\n.
class TsvFile {
 public:
  // Refuses a file whose header is not exactly `columns`, or a line with another number of fields.
  TsvFile(const Path& path, std::span<const std::string_view> columns);

  std::size_t rows() const { return lines_.size(); }
  std::string_view field(std::size_t row, std::size_t column) const;

  // "file.tsv:12", as editors and compilers write it.
  std::string where(std::size_t row) const;

 private:
  Path path_;
  MappedFile file_;
  std::size_t columns_;
  std::vector<std::string_view> lines_;
};

// The same error, placed in the row of a file.
Error in_row(const Error& error, const TsvFile& file, std::size_t row);

}  // namespace fovea
