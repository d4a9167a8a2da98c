#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/file.h"

namespace fovea {

// Writes scalar curves that TensorBoard shows: one event file in the folder of the run. Every value is handed to the
// system at once.
class EventLog {
 public:
  // A new file beside any earlier ones: TensorBoard joins the files of a folder.
  explicit EventLog(const Path& folder);

  void scalar(std::string_view tag, std::int64_t step, double value);
  void scalar(std::string_view tag, std::int64_t step, double value, double unix_seconds);
  const Path& path() const { return path_; }

 private:
  Path path_;
  FileHandle file_;
};

// CRC-32C (Castagnoli), as the records of an event file carry it.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace fovea
