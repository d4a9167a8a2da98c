#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/context.h"
#include "io/file.h"

// The readers of files as functions of bytes: for libFuzzer (fuzz.cc), and for files that are read again in the tests
// (replay.cc). A reader may refuse its input with an Error of bad_input, unsupported, usage, shape or io. Any other
// exception, a crash, and memory beyond what the size of the input allows are faults.
namespace fovea::fuzz {

// The bytes, and a folder in memory to put them into files of the names that the reader looks for.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes);

  std::string_view bytes() const { return bytes_; }
  // Several files in one input, with a line "%%%%" between them; those that are missing are empty.
  std::vector<std::string_view> parts(std::size_t count) const;

  // Writes a file into the folder.
  Path put(const std::string& name, std::string_view bytes) const;
  Path put(const std::string& name) const { return put(name, bytes_); }
  // The same, but no file where there are no bytes: for one that may be missing.
  void put_or_remove(const std::string& name, std::string_view bytes) const;
  const Path& folder() const;

 private:
  std::string_view bytes_;
};

struct Reader {
  const char* name;
  void (*read)(const Input& input);
  // Bytes of memory that an empty input may take, and how many times those of a small one an input may.
  std::size_t floor = std::size_t{8} << 20, factor = 100;
};

// Makes a reader known by its name.
struct Known {
  explicit Known(const Reader& reader);
};
std::span<const Reader> readers();
const Reader& reader_named(std::string_view name);

// True: the input was taken; false: it was refused in words. All else ends the process, with the reason.
bool try_input(const Reader& reader, std::span<const std::uint8_t> bytes);

// One thread, memory of its own.
Context fresh_context();

}  // namespace fovea::fuzz
