#include "data/files.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/xz.h"
#include "text/text_file.h"

namespace fovea {
namespace {

// Some programs begin every text with the byte-order mark.
std::string_view without_mark(std::string_view text) {
  return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;
}

}  // namespace

std::optional<Path> find_file(const Path& folder, std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    for (const char* end : {"", ".xz"}) {
      const Path path = folder / (std::string(name) + end);
      if (is_file(path)) return path;
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

std::string first_line(const Path& path) {
  const std::string head = read_head(path, std::size_t{64} << 10);
  std::string_view rest = without_mark(head);
  return std::string(take_line(rest));
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<std::string_view> tab_fields(std::string_view line, std::size_t most) {
  std::vector<std::string_view> fields;
  for (std::size_t tab; fields.size() + 1 < most && (tab = line.find('\t')) != std::string_view::npos;) {
    fields.push_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  fields.push_back(line);
  return fields;
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

std::size_t within_memory(std::size_t cap, const Context& context) {
  return std::min(cap, context.allocator()->limit());
}

TextLines::TextLines(const Path& path, std::size_t cap) : path_(path.string()), text_(read_text(path, cap)) {
  std::string_view rest = text_;
  while (!rest.empty()) lines_.push_back(take_line(rest));
}

std::string TextLines::where(std::size_t line) const { return fmt::format("{}:{}", path_, line + 1); }

}  // namespace fovea
