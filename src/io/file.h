#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

using Path = std::filesystem::path;

// An open file descriptor, closed with its owner.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileHandle();

  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// What a path leads to, through links. Nothing being there is an answer; a path that cannot be followed (a loop of
// links, a name that is too long, a folder one may not enter) is refused by name.
enum class PathKind : std::uint8_t { nothing, file, folder, other };
PathKind kind_at(const Path& path);
inline bool is_there(const Path& path) { return kind_at(path) != PathKind::nothing; }
inline bool is_file(const Path& path) { return kind_at(path) == PathKind::file; }
inline bool is_folder(const Path& path) { return kind_at(path) == PathKind::folder; }

// What the folder holds, by name.
std::vector<Path> entries_of(const Path& folder);

// What is made of a file takes no more memory than this: of a picture, or of a packed file while it is unpacked, it is
// checked before it is taken; what other readers make of a byte is less.
constexpr std::size_t kMemoryFloor = std::size_t{64} << 20, kMemoryFactor = 100;
constexpr std::size_t memory_for(std::size_t file_bytes) { return kMemoryFloor + kMemoryFactor * file_bytes; }

// Without this a crash of the machine may forget what was renamed in the folder. False, with errno set: it cannot be.
bool sync_folder(const Path& folder);

// A file that appears whole or not at all. Bytes go to ".NAME.partial" beside the target; commit() makes them durable
// and renames. A kill at any moment leaves the old file or the new one; without commit() the partial file is removed.
// Writers of the same target wait for each other.
class AtomicFile {
 public:
  explicit AtomicFile(const Path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  void open_partial();

  Path target_, partial_;
  FileHandle file_;
};

// Replaces the file in one atomic step.
void write_file(const Path& path, std::string_view content);

// The whole file; refuses one larger than `cap` before reading it, and all that is no ordinary file (a pipe never
// ends).
std::string read_file(const Path& path, std::size_t cap = std::size_t{1} << 30);

// Refuses a file of more bytes than the cap.
void refuse_larger(std::size_t bytes, std::size_t cap, const Path& path);

// Makes the folder and its parents.
void make_folder(const Path& path);

// Appends the text to an open file in as few system calls as possible; `path` names the file in errors.
void append(const FileHandle& file, std::string_view text, const Path& path);

// Opens for appending, creating the file if need be.
FileHandle open_for_append(const Path& path);

// A file mapped into memory. Pages are private: writing to them changes memory, never the file.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);

  std::span<std::byte> bytes() const { return bytes_; }
  const std::shared_ptr<void>& owner() const { return owner_; }  // keeps the mapping alive

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> owner_;
};

}  // namespace fovea
