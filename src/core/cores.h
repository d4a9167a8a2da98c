#pragma once

#include <filesystem>
#include <optional>

namespace fovea {

// Cores that the process may use: those it is not kept from (taskset, cpusets), and no more than its control group has
// time for (containers), in whole cores. OMP_NUM_THREADS decides where it is set. The same throughout a process.
int usable_cores();

// The cores' worth of time that control groups, of either version, leave a process; none: no limit. `self` is
// /proc/self/cgroup, `mount` /sys/fs/cgroup. A group is limited by those above it too.
std::optional<double> cgroup_cores(const std::filesystem::path& self, const std::filesystem::path& mount);

}  // namespace fovea
