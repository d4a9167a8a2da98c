#include "data/tsv.h"

#include <fmt/format.h>

#include <algorithm>

namespace fovea {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

TsvFile::TsvFile(const Path& path, std::span<const std::string_view> columns)
    : path_(path), file_(path), columns_(columns.size()) {
  std::string_view text(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size());
  const std::string header = fmt::format("{}", fmt::join(columns, "\t"));
  if (take_line(text) != header)
    fail(ErrorCode::bad_input, "the first line is not the header of this kind of file", path.string() + ":1",
         fmt::format("the columns are {}, separated by tabs", fmt::join(columns, ", ")));
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    lines_.push_back(line);
    const auto fields = static_cast<std::size_t>(std::count(line.begin(), line.end(), '\t')) + 1;
    if (fields != columns_)
      fail(ErrorCode::bad_input, fmt::format("expected {} fields, got {}", columns_, line.empty() ? 0 : fields),
           where(rows() - 1), fmt::format("the columns are {}, separated by tabs", fmt::join(columns, ", ")));
  }
}

std::string_view TsvFile::field(std::size_t row, std::size_t column) const {
  std::string_view line = lines_[row];
  for (; column > 0; --column) line.remove_prefix(line.find('\t') + 1);
  return line.substr(0, line.find('\t'));
}

std::string TsvFile::where(std::size_t row) const { return fmt::format("{}:{}", path_.string(), row + 2); }

Error in_row(const Error& error, const TsvFile& file, std::size_t row) {
  const std::string inner = error.where().empty() ? "" : ", " + error.where();
  return Error(error.code(), error.message(), file.where(row) + inner, error.hint());
}

}  // namespace fovea
