#include "io/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fovea/error.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

Path absolute_target(const Path& target) {
  Path path = fs::absolute(target).lexically_normal();
  return path.has_filename() ? path : path.parent_path();  // "runs/x/" -> "runs/x"
}

Path partial_name(const Path& target) { return target.parent_path() / ("." + target.filename().string() + ".partial"); }
Path old_name(const Path& target) { return target.parent_path() / ("." + target.filename().string() + ".old"); }

[[noreturn]] void fail_io(const std::string& what, const Path& path) {
  fail(ErrorCode::io, what + ": " + std::strerror(errno), path.string());
}

void make_durable(const Path& folder) {
  if (!sync_folder(folder)) fail_io("cannot make the folder durable", folder);
}

void rename_folder(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_io("cannot rename the folder to " + to.filename().string(), from);
}

bool present(const Path& path) {
  std::error_code unreachable;
  return fs::exists(path, unreachable);
}

void remove_quietly(const Path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

AtomicFolder::AtomicFolder(const Path& target) : target_(absolute_target(target)), partial_(partial_name(target_)) {
  make_folder(target_.parent_path());
  remove_quietly(partial_);
  make_folder(partial_);
}

AtomicFolder::~AtomicFolder() { remove_quietly(partial_); }

void AtomicFolder::commit(const Path& older) {
  make_durable(partial_);
  const bool replaces = present(target_);
  if (!replaces) {
    rename_folder(partial_, target_);
  } else if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail_io("cannot replace the folder", target_);
    const Path old = old_name(target_);
    remove_quietly(old);
    rename_folder(target_, old);
    rename_folder(partial_, target_);
    rename_folder(old, partial_);
  }
  make_durable(target_.parent_path());
  if (replaces && !older.empty()) {
    remove_quietly(older);
    rename_folder(partial_, older);
  }
  remove_quietly(partial_);  // the old one
}

Path committed_folder(const Path& target) {
  const Path path = absolute_target(target);
  if (present(path) || !present(old_name(path))) return path;
  return present(partial_name(path)) ? partial_name(path) : old_name(path);
}

}  // namespace fovea
