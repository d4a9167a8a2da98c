#include "io/file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr auto kIo = ErrorCode::io;

TEST(File, WritesAndReplaces) {
  const TemporaryFolder folder;
  write_file(folder / "a", "one");
  write_file(folder / "a", std::string(100000, 'x'));
  EXPECT_EQ(read_file(folder / "a"), std::string(100000, 'x'));
  write_file(folder / "a", "");
  EXPECT_EQ(read_file(folder / "a"), "");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(File, UncommittedLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  put(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
    EXPECT_EQ(get(folder / "a"), "old");
  }
  EXPECT_EQ(get(folder / "a"), "old");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(File, KeepsPermissionsAndFollowsLinks) {
  const TemporaryFolder folder;
  put(folder / "a", "old");
  ::chmod((folder / "a").c_str(), 0600);
  std::filesystem::create_symlink(folder / "a", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_EQ(get(folder / "a"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  struct stat status {};
  ::stat((folder / "a").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(File, RefusesToReplaceWhatIsNotAFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d");
  EXPECT_ERROR(write_file(folder / "d", "x"), kIo, "not an ordinary file", "/d", "");
  EXPECT_ERROR(write_file("/dev/null", "x"), kIo, "not an ordinary file", "/dev/null", "");
  EXPECT_ERROR(write_file(folder / "no/a", "x"), kIo, "No such file", "no/a", "");
}

// A limit on the file size stands in for a full disk: the same write fails in the same place.
TEST(File, FullDiskLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  put(folder / "a", "old");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  EXPECT_ERROR(write_file(folder / "a", std::string(10000, 'x')), kIo, "cannot write", "/a", "");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(get(folder / "a"), "old");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(File, ReadOnlyFolderIsNamed) {
  const TemporaryFolder folder;
  put(folder / "a", "old");
  ::chmod(folder.path().c_str(), 0555);
  const bool root = ::geteuid() == 0;  // who may write anywhere
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
  EXPECT_ERROR(write_file(folder / "a", "new"), kIo, "Permission denied", "/a", "folder you may write to");
  EXPECT_ERROR(make_folder(folder / "sub"), kIo, "cannot make folder", "/sub", "");
  EXPECT_ERROR(open_for_append(folder / "b"), kIo, "Permission denied", "/b", "");
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(get(folder / "a"), "old");
  EXPECT_EQ(folder.files(), 1u);
}

// Kills a writer again and again at moments of its work: the file always holds one whole version.
TEST(File, SurvivesKillAtAnyMoment) {
  const TemporaryFolder folder;
  const auto version = [](char letter) { return std::string(300000, letter); };
  write_file(folder / "a", version('a'));
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) write_file(folder / "a", version(static_cast<char>('a' + i % 26)));
    }
    ::usleep(static_cast<useconds_t>(500 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string content = read_file(folder / "a");
    ASSERT_EQ(content, version(content.empty() ? '?' : content[0]));
  }
  write_file(folder / "a", "last");
  EXPECT_EQ(folder.files(), 1u);  // what the killed writers left was taken over
}

TEST(File, WritersOfOneTargetWaitForEachOther) {
  const TemporaryFolder folder;
  const auto version = [](int i) { return std::string(50000, static_cast<char>('a' + i)); };
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k) write_file(folder / "a", version(i));
    });
  for (std::thread& writer : writers) writer.join();
  const std::string content = read_file(folder / "a");
  EXPECT_EQ(content, version(content[0] - 'a'));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(File, ReadsWithinItsCap) {
  const TemporaryFolder folder;
  put(folder / "a", std::string(1000, 'x'));
  EXPECT_EQ(read_file(folder / "a", 1000).size(), 1000u);
  EXPECT_ERROR(read_file(folder / "a", 999), ErrorCode::bad_input, "larger than the 999 bytes", "/a", "");
  EXPECT_ERROR(read_file("/dev/zero", 100000), ErrorCode::bad_input, "ordinary file", "/dev/zero", "");
  EXPECT_ERROR(read_file(folder / "b"), ErrorCode::bad_input, "no such file", "/b", "ls ");
  EXPECT_ERROR(read_file(folder.path()), ErrorCode::bad_input, "found a folder", "", "");
}

// Nobody writes into this pipe: opening it as a file is opened would never end.
TEST(File, RefusesPipesAndSockets) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(read_file(folder / "pipe"), ErrorCode::bad_input, "ordinary file", "/pipe", "to a file first");
  EXPECT_ERROR(MappedFile(folder / "pipe"), ErrorCode::bad_input, "ordinary file", "/pipe", "");
  EXPECT_EQ(kind_at(folder / "pipe"), PathKind::other);
  sockaddr_un address{AF_UNIX, {}};
  const FileHandle socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_ERROR(read_file(folder / "socket"), ErrorCode::bad_input, "ordinary file", "/socket", "");
}

TEST(File, NamesPathsThatCannotBeFollowed) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  const Path longer = folder / std::string(300, 'x');
  EXPECT_ERROR(is_there(folder / "loop"), kIo, "cannot follow", "/loop", "leads back");
  EXPECT_ERROR(read_file(folder / "loop"), kIo, "cannot read", "/loop", "leads back");
  EXPECT_ERROR(write_file(folder / "loop", "x"), kIo, "cannot write", "/loop", "leads back");
  EXPECT_ERROR(is_there(longer), kIo, "cannot follow", "xxx", "shorter");
  EXPECT_ERROR(write_file(longer, "x"), kIo, "cannot write", "xxx", "shorter");
  EXPECT_ERROR(make_folder(longer), kIo, "cannot make folder", "xxx", "shorter");
  EXPECT_ERROR(entries_of(folder / "none"), ErrorCode::bad_input, "no such file", "/none", "");
  put(folder / "a", "");
  EXPECT_TRUE(is_file(folder / "a"));
  EXPECT_TRUE(is_folder(folder.path()));
  EXPECT_FALSE(is_there(folder / "a" / "b"));
}

TEST(File, MapsPrivately) {
  const TemporaryFolder folder;
  put(folder / "a", "abc");
  const MappedFile file(folder / "a");
  ASSERT_EQ(file.bytes().size(), 3u);
  file.bytes()[0] = std::byte{'x'};
  EXPECT_EQ(get(folder / "a"), "abc");
  put(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
  EXPECT_ERROR(MappedFile("/dev/zero"), ErrorCode::bad_input, "ordinary file", "/dev/zero", "");
}

}  // namespace
}  // namespace fovea
