#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/context.h"
#include "fovea/error.h"
#include "io/file.h"

namespace fovea {

// The first of these files that the folder has, as it is or packed ("train.txt.xz").
std::optional<Path> find_file(const Path& folder, std::span<const std::string_view> names);
// The same; refuses a folder without any.
Path require_file(const Path& folder, std::span<const std::string_view> names);

// What the parts of a data set are called; the ends of their files' names differ by kind.
inline constexpr std::string_view kTrainNames[] = {"train"};
inline constexpr std::string_view kValidationNames[] = {"valid", "val", "validation", "dev"};
inline constexpr std::string_view kTestNames[] = {"test", "test_2016_flickr"};
// The file of a part with this end: "train" and ".txt".
std::optional<Path> find_part(const Path& folder, std::span<const std::string_view> names, std::string_view end);

// The first line of a text file, to tell what it holds; at most 64 kB of it.
std::string first_line(const Path& path);
// Takes the next line off the text, without its end: \n or \r\n.
std::string_view take_line(std::string_view& text);
// What stands between tabs; of more than `most` fields the last keeps its tabs.
std::vector<std::string_view> tab_fields(std::string_view line, std::size_t most = SIZE_MAX);

std::uint32_t big_endian(std::string_view bytes);  // of the first four

// The bytes of a file that is read as a whole: as many as one may have, but no more than the context's memory.
inline constexpr std::size_t kTextCap = std::size_t{1} << 30, kArrayCap = std::size_t{4} << 30;
std::size_t within_memory(std::size_t cap, const Context& context);

// A text file in memory, unpacked, line by line; lines end in \n or \r\n, a byte-order mark is passed over.
class TextLines {
 public:
  explicit TextLines(const Path& path, std::size_t cap = kTextCap);

  std::size_t size() const { return lines_.size(); }
  std::string_view operator[](std::size_t line) const { return lines_[line]; }
  std::vector<std::string_view> fields(std::size_t line) const { return tab_fields(lines_[line]); }
  std::string where(std::size_t line) const;  // "file.tsv:12"
  const std::vector<std::string_view>& lines() const { return lines_; }

  TextLines(const TextLines&) = delete;
  TextLines& operator=(const TextLines&) = delete;

 private:
  std::string path_, text_;
  std::vector<std::string_view> lines_;
};

}  // namespace fovea
