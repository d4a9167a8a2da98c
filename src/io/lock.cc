#include "io/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "fovea/error.h"

namespace fovea {
namespace {

Path lock_name(const Path& folder) { return folder / ".lock"; }

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

[[noreturn]] void refuse(const Path& path) {
  constexpr std::size_t kCap = 4096;
  std::string holder = read_file(path, kCap);
  if (holder.empty()) holder = "another process";  // it has the lock and is about to write its name
  fail(ErrorCode::usage, holder + " is at work in this folder", path.parent_path().string(),
       "wait for it, or stop it: it saves on Ctrl-C and kill");
}

enum class Taken : std::uint8_t { yes, no, again };

// Where locks do not work (some network file systems), there are none.
Taken try_lock(const FileHandle& file, const Path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? Taken::no : Taken::yes;
  struct stat mine {
  }, named{};
  const bool current = ::fstat(file.get(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
                       mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
  return current ? Taken::yes : Taken::again;  // its last holder took the file away
}

}  // namespace

bool FolderLock::take(const Path& folder) {
  const Path path = lock_name(folder);
  make_folder(folder);
  for (Taken taken = Taken::again; taken == Taken::again;) {
    file_ = open_for_append(path);
    taken = try_lock(file_, path);
    if (taken == Taken::no) return false;
  }
  path_ = path;  // from here on the destructor's to remove
  if (::ftruncate(file_.get(), 0) != 0)
    fail(ErrorCode::io, "cannot write the lock", path_.string(), "a folder you may write to");
  append(file_, this_process(), path_);
  return true;
}

FolderLock::FolderLock(const Path& folder) {
  if (!take(folder)) refuse(lock_name(folder));
}

FolderLock::~FolderLock() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::unique_ptr<FolderLock> FolderLock::try_take(const Path& folder) {
  std::unique_ptr<FolderLock> lock(new FolderLock);
  return lock->take(folder) ? std::move(lock) : nullptr;
}

bool FolderLock::is_taken(const Path& folder) {
  const FileHandle file(::open(lock_name(folder).c_str(), O_RDONLY | O_CLOEXEC));
  return file.open() && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void FolderLock::require_free(const Path& folder) {
  if (is_taken(folder)) refuse(lock_name(folder));
}

}  // namespace fovea
