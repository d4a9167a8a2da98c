#include "io/folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/rng.h"
#include "fovea/error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

void write_pair(const Path& target, const std::string& content) {
  AtomicFolder folder(target);
  write_file(folder.path() / "a", content);
  write_file(folder.path() / "b", content);
  folder.commit();
}

TEST(AtomicFolder, AppearsWhole) {
  const TemporaryFolder temporary;
  write_pair(temporary / "run", "one");
  write_pair(temporary / "run/", "two");  // a slash at the end changes nothing
  EXPECT_EQ(get(temporary / "run/a"), "two");
  EXPECT_EQ(get(temporary / "run/b"), "two");
  EXPECT_EQ(temporary.files(), 1u);  // nothing left beside it
}

TEST(AtomicFolder, WithoutCommitLeavesTheOldOne) {
  const TemporaryFolder temporary;
  write_pair(temporary / "run", "one");
  {
    AtomicFolder folder(temporary / "run");
    write_file(folder.path() / "a", "two");
  }
  EXPECT_EQ(get(temporary / "run/a"), "one");
  EXPECT_EQ(temporary.files(), 1u);
}

TEST(AtomicFolder, ReplacesLeftOversOfAKilledWriter) {
  const TemporaryFolder temporary;
  make_folder(temporary / ".run.partial");
  put(temporary / ".run.partial/stale", "x");
  write_pair(temporary / "run", "one");
  EXPECT_FALSE(std::filesystem::exists(temporary / "run/stale"));
}

TEST(AtomicFolder, IsFoundBetweenTheTwoRenamesOfAPlainFileSystem) {
  const TemporaryFolder temporary;
  make_folder(temporary / ".run.old");
  EXPECT_EQ(committed_folder(temporary / "run").filename(), ".run.old");
  make_folder(temporary / ".run.partial");
  EXPECT_EQ(committed_folder(temporary / "run").filename(), ".run.partial");
  make_folder(temporary / "run");
  EXPECT_EQ(committed_folder(temporary / "run/").filename(), "run");
}

TEST(AtomicFolder, CannotBeMadeInsideAFile) {
  const TemporaryFolder temporary;
  put(temporary / "file", "x");
  EXPECT_THROW(AtomicFolder(temporary / "file/run"), Error);
  EXPECT_EQ(get(temporary / "file"), "x");
}

// A child replaces the folder as fast as it can until it is killed.
TEST(AtomicFolder, SurvivesAKillAtAnyMoment) {
  const TemporaryFolder temporary;
  const Path target = temporary / "run";
  write_pair(target, "0");
  Random random(1);
  for (int round = 0; round < 25; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 1;; ++i) write_pair(target, std::to_string(i));
    }
    usleep(500 + random.below(20000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const Path found = committed_folder(target);
    ASSERT_FALSE(get(found / "a").empty());
    ASSERT_EQ(get(found / "a"), get(found / "b"));
  }
}

}  // namespace
}  // namespace fovea
