#include "io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "fovea/error.h"
#include "io/missing.h"

namespace fovea {
namespace {

std::string hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "free some space, or choose another folder";
    case EROFS:
    case EACCES:
    case EPERM: return "choose a folder you may write to, or change its permissions";
    case ENOENT: return "a path whose folders are there";
    case ELOOP: return "a link that leads back to itself: replace it by the file";
    case ENAMETOOLONG: return "a shorter name";
    case EFBIG: return "the file size limit of this process or disk is too low for it";
    default: return {};
  }
}

[[noreturn]] void fail_io(const std::string& verb, const Path& path, int error) {
  fail(ErrorCode::io, "cannot " + verb + ": " + std::generic_category().message(error), path.string(), hint_for(error));
}

// Reads are mistakes in the user's input when the file is not there or is not a file.
[[noreturn]] void fail_read(const Path& path, int error) {
  if (error == ENOTDIR && is_file(path)) fail(ErrorCode::bad_input, "expected a folder, found a file", path.string());
  if (error == ENOENT || error == ENOTDIR) throw NoSuchFile("no such file", path.string(), missing_hint(path));
  fail_io("read", path, error);
}

template <class Call>
auto retry(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Path folder_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

void write_all(int descriptor, const void* data, std::size_t bytes, const Path& path) {
  const char* next = static_cast<const char*>(data);
  constexpr std::size_t kMost = std::size_t{1} << 30;  // Linux moves at most 2 GB in one call
  while (bytes > 0) {
    const ssize_t done = retry([&] { return ::write(descriptor, next, std::min(bytes, kMost)); });
    if (done < 0) fail_io("write", path, errno);
    next += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

// Not blocking: a pipe that nobody writes to would never open.
FileHandle open_for_read(const Path& path, struct stat& status) {
  FileHandle file(retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  const bool socket = !file.open() && errno == ENXIO;
  if (!socket && (!file.open() || ::fstat(file.get(), &status) != 0)) fail_read(path, errno);
  if (S_ISDIR(status.st_mode)) fail(ErrorCode::bad_input, "expected a file, found a folder", path.string());
  if (!S_ISREG(status.st_mode))
    fail(ErrorCode::bad_input, "expected an ordinary file, found a pipe, a device or a socket", path.string(),
         "write what it gives to a file first");
  return file;
}

}  // namespace

PathKind kind_at(const Path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0)
    return S_ISREG(status.st_mode) ? PathKind::file : S_ISDIR(status.st_mode) ? PathKind::folder : PathKind::other;
  if (errno != ENOENT && errno != ENOTDIR) fail_io("follow the path", path, errno);
  return PathKind::nothing;
}

std::vector<Path> entries_of(const Path& folder) {
  std::error_code error;
  std::vector<Path> entries;
  std::filesystem::directory_iterator next(folder, error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error))
    entries.push_back(next->path());
  if (error) fail_read(folder, error.value());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool sync_folder(const Path& folder) {
  const FileHandle handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return handle.open() && ::fsync(handle.get()) == 0;
}

FileHandle::~FileHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

AtomicFile::AtomicFile(const Path& target) : target_(target) {
  std::error_code error;
  if (std::filesystem::is_symlink(target_, error)) target_ = std::filesystem::weakly_canonical(target, error);
  if (target_.empty()) fail_io("write", target, error.value());
  struct stat old {};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  // Renaming over a device or a folder would destroy it or fail late.
  if (exists && !S_ISREG(old.st_mode)) fail(ErrorCode::io, "not an ordinary file, so not replaced", target_.string());
  partial_ = folder_of(target_) / ("." + target_.filename().string() + ".partial");
  open_partial();
  if (exists) ::fchmod(file_.get(), old.st_mode & 07777);
}

// The name is fixed, so a killed writer leaves at most one partial file, which the next writer takes over. The lock
// may have been waited for while its holder renamed the file away: then it guards nothing, and we start again.
void AtomicFile::open_partial() {
  for (;;) {
    FileHandle file(retry(
        [&] { return ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666); }));
    if (!file.open()) fail_io("write", target_, errno);
    retry([&] { return ::flock(file.get(), LOCK_EX); });  // where locks do not work, the writers race as usual
    struct stat mine {
    }, named{};
    const bool current = ::fstat(file.get(), &mine) == 0 && ::lstat(partial_.c_str(), &named) == 0 &&
                         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
    if (!current) continue;
    file_ = std::move(file);
    if (::ftruncate(file_.get(), 0) != 0) fail_io("write", target_, errno);
    return;
  }
}

AtomicFile::~AtomicFile() {
  if (file_.open()) ::unlink(partial_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) { write_all(file_.get(), data, bytes, target_); }

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) fail_io("write", target_, errno);
  if (::rename(partial_.c_str(), target_.c_str()) != 0) fail_io("write", target_, errno);
  file_ = FileHandle();
  sync_folder(folder_of(target_));  // some file systems cannot: their loss
}

void write_file(const Path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

// Reads until the end rather than to the stated size: files of /proc have none, and a file may change meanwhile.
std::string read_file(const Path& path, std::size_t cap) {
  struct stat status {};
  const FileHandle file = open_for_read(path, status);
  const auto size = static_cast<std::size_t>(status.st_size);
  refuse_larger(size, cap, path);
  std::string content;
  std::size_t filled = 0;
  for (;;) {
    if (filled == content.size()) content.resize(std::max(std::max(size, std::size_t{4096}) + 1, 2 * filled));
    const ssize_t got = retry([&] { return ::read(file.get(), content.data() + filled, content.size() - filled); });
    if (got < 0) fail_read(path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    refuse_larger(filled, cap, path);
  }
  content.resize(filled);
  return content;
}

void refuse_larger(std::size_t bytes, std::size_t cap, const Path& path) {
  if (bytes > cap)
    fail(ErrorCode::bad_input, "file is larger than the " + std::to_string(cap) + " bytes allowed here", path.string(),
         "a smaller file, or a higher limit of memory");
}

void make_folder(const Path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_io("make folder", path, error.value());
}

void append(const FileHandle& file, std::string_view text, const Path& path) {
  write_all(file.get(), text.data(), text.size(), path);
}

FileHandle open_for_append(const Path& path) {
  FileHandle file(retry([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); }));
  if (!file.open()) fail_io("write", path, errno);
  return file;
}

MappedFile::MappedFile(const Path& path) {
  struct stat status {};
  const FileHandle file = open_for_read(path, status);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail_read(path, errno);
  bytes_ = {static_cast<std::byte*>(data), size};
  owner_ = std::shared_ptr<void>(data, [size](void* p) { ::munmap(p, size); });
}

}  // namespace fovea
