#include "io/lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

TEST(FolderLock, IsGivenToOneAtATimeAndNamesIt) {
  const TemporaryFolder folder;
  const Path run = folder / "run";
  {
    const FolderLock lock(run);
    const std::string name = "process " + std::to_string(::getpid());
    EXPECT_ERROR(FolderLock(run), ErrorCode::usage, name.c_str(), "run", "");
    EXPECT_ERROR(FolderLock::require_free(run), ErrorCode::usage, name.c_str(), "run", "");
  }
  FolderLock::require_free(run);
  const FolderLock again(run);
}

TEST(FolderLock, OfAKilledProcessIsFree) {
  const TemporaryFolder folder;
  const Path run = folder / "run";
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(run);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(std::filesystem::exists(run / ".lock"));
  FolderLock::require_free(run);
  const FolderLock lock(run);
}

TEST(FolderLock, NeedsNoFolder) {
  const TemporaryFolder folder;
  FolderLock::require_free(folder / "nowhere");
  EXPECT_FALSE(std::filesystem::exists(folder / "nowhere"));
}

}  // namespace
}  // namespace fovea
