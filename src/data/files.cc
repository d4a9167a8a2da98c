#include "data/files.h"

#include <fmt/format.h>

#include "data/tsv.h"
#include "io/xz.h"

namespace fovea {

std::optional<Path> find_file(const Path& folder, std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    for (const char* end : {"", ".xz"}) {
      const Path path = folder / (std::string(name) + end);
      if (std::filesystem::is_regular_file(path)) return path;
    }
  return {};
}

Path require_file(const Path& folder, std::span<const std::string_view> names) {
  if (const auto path = find_file(folder, names)) return *path;
  fail(ErrorCode::bad_input, fmt::format("no file {}", fmt::join(names, " or ")), folder.string(),
       "also packed, with .xz at the end of its name");
}

std::optional<Path> find_part(const Path& folder, std::span<const std::string_view> names, std::string_view end) {
  for (const std::string_view name : names) {
    const std::string file = std::string(name) + std::string(end);
    const std::string_view wanted[] = {file};
    if (const auto path = find_file(folder, wanted)) return path;
  }
  return {};
}

TextLines::TextLines(const Path& path) : path_(path.string()), text_(read_maybe_xz(path)) {
  std::string_view rest = text_;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  while (!rest.empty()) lines_.push_back(take_line(rest));
}

std::vector<std::string_view> TextLines::fields(std::size_t line) const {
  std::vector<std::string_view> fields;
  std::string_view rest = lines_[line];
  for (std::size_t tab = rest.find('\t'); tab != std::string_view::npos; tab = rest.find('\t')) {
    fields.push_back(rest.substr(0, tab));
    rest.remove_prefix(tab + 1);
  }
  fields.push_back(rest);
  return fields;
}

std::string TextLines::where(std::size_t line) const { return fmt::format("{}:{}", path_, line + 1); }

}  // namespace fovea
