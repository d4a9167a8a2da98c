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
Taken take(const FileHandle& file, const Path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? Taken::no : Taken::yes;
  struct stat mine {
  }, named{};
  const bool current = ::fstat(file.get(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
                       mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
  return current ? Taken::yes : Taken::again;  // its last holder took the file away
}

}  // namespace

FolderLock::FolderLock(const Path& folder) : path_(lock_name(folder)) {
  make_folder(folder);
  for (Taken taken = Taken::again; taken == Taken::again;) {
    file_ = open_for_append(path_);
    taken = take(file_, path_);
    if (taken == Taken::no) refuse(path_);
  }
  if (::ftruncate(file_.get(), 0) != 0)
    fail(ErrorCode::io, "cannot write the lock", path_.string(), "a folder you may write to");
  append(file_, this_process(), path_);
}

FolderLock::~FolderLock() { ::unlink(path_.c_str()); }

void FolderLock::require_free(const Path& folder) {
  const Path path = lock_name(folder);
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.open() && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) refuse(path);
}

}  // namespace fovea
