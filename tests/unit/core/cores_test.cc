#include "core/cores.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <fstream>

#include "fovea/context.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

class Cgroups : public testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> cores() { return cgroup_cores(folder_ / "cgroup", folder_ / "sys"); }

  TemporaryFolder folder_;
};

TEST_F(Cgroups, Version2IsLimitedByEveryGroupAbove) {
  file("cgroup", "0::/user.slice/job\n");
  EXPECT_EQ(cores(), std::nullopt);
  file("sys/cpu.max", "max 100000\n");
  file("sys/user.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(cores(), 2.5);
  file("sys/user.slice/job/cpu.max", "400000 100000\n");
  EXPECT_EQ(cores(), 2.5);
  file("sys/user.slice/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores(), 0.5);
}

TEST_F(Cgroups, Version1HasAFolderForEachController) {
  file("cgroup", "7:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/docker/1f\n");
  file("sys/cpu/docker/1f/cpu.cfs_quota_us", "-1\n");
  file("sys/cpu/docker/1f/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), std::nullopt);
  file("sys/cpu/docker/1f/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(cores(), 3.0);
  file("sys/cpu,cpuacct/docker/1f/cpu.cfs_quota_us", "150000\n");
  file("sys/cpu,cpuacct/docker/1f/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 1.5);
}

// Inside a container the path is often that of the host.
TEST_F(Cgroups, TheRootCountsWhereTheGroupIsNotToBeSeen) {
  file("cgroup", "3:cpu:/docker/of/the/host\n");
  file("sys/cpu/cpu.cfs_quota_us", "200000\n");
  file("sys/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 2.0);
}

TEST_F(Cgroups, WhatCannotBeReadIsNoLimit) {
  EXPECT_EQ(cores(), std::nullopt);
  file("cgroup", "nonsense\n0::/\n:\n");
  file("sys/cpu.max", "lots and lots\n");
  EXPECT_EQ(cores(), std::nullopt);
  file("sys/cpu.max", "100000 0\n");
  EXPECT_EQ(cores(), std::nullopt);
}

// A context of one thread made before it must not decide.
TEST(Cores, DoNotDependOnEarlierContexts) {
  const Context first({.threads = 0});
  const Context narrow({.threads = 1});
  EXPECT_EQ(Context({.threads = 0}).threads(), first.threads());
  EXPECT_LE(first.threads(), std::max(omp_get_num_procs(), omp_get_max_threads()));
}

}  // namespace
}  // namespace fovea
