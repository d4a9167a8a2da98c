#pragma once

#include <memory>

#include "io/file.h"

namespace fovea {

// A folder that belongs to one process at a time: a lock on ".lock" in it, which names that process. The system gives
// the lock up when the process ends, however it ends, so none is ever left over; the file may be.
class FolderLock {
 public:
  explicit FolderLock(const Path& folder);  // makes the folder; refuses one that is taken
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Null: it is taken.
  static std::unique_ptr<FolderLock> try_take(const Path& folder);

  static bool is_taken(const Path& folder);
  // Refuses a folder that is taken, and takes none.
  static void require_free(const Path& folder);

 private:
  FolderLock() = default;
  bool take(const Path& folder);  // false: it is taken

  Path path_;
  FileHandle file_;
};

}  // namespace fovea
