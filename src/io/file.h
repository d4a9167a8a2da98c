#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

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

// The whole file; refuses one larger than `cap` before reading it.
std::string read_file(const Path& path, std::size_t cap = std::size_t{1} << 30);

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
