#include "core/cores.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace fovea {
namespace {

namespace fs = std::filesystem;

// A quota and a period in microseconds; no quota is "max" or -1.
std::optional<double> share(std::istream&& quota, std::istream&& period) {
  double allowed = 0.0, of = 0.0;
  if (!(quota >> allowed) || !(period >> of) || allowed <= 0.0 || of <= 0.0) return {};
  return allowed / of;
}

std::optional<double> share_v1(const fs::path& group) {
  return share(std::ifstream(group / "cpu.cfs_quota_us"), std::ifstream(group / "cpu.cfs_period_us"));
}

std::optional<double> share_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota, period;
  file >> quota >> period;
  return share(std::istringstream(quota), std::istringstream(period));
}

using Share = std::optional<double> (*)(const fs::path& group);

// The least of a group and those above it. Inside a container the path may be that of the host, where nothing is to be
// seen: then the root is the container's own.
void limit_by(std::optional<double>& least, const fs::path& mount, fs::path group, Share share_of) {
  for (group = group.relative_path();; group = group.parent_path()) {
    const std::optional<double> share = share_of(mount / group);
    if (share) least = std::min(least.value_or(*share), *share);
    if (group.empty()) return;
  }
}

bool names_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

}  // namespace

std::optional<double> cgroup_cores(const fs::path& self, const fs::path& mount) {
  std::optional<double> least;
  std::ifstream groups(self);
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/docker/1f" or "0::/user.slice"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) limit_by(least, mount, group, share_v2);
    if (!names_cpu(controllers)) continue;
    limit_by(least, mount / "cpu", group, share_v1);
    limit_by(least, mount / controllers, group, share_v1);
  }
  return least;
}

int usable_cores() {
  static const int cores = [] {
    const int allowed = omp_get_num_procs();
    if (std::getenv("OMP_NUM_THREADS") != nullptr) return omp_get_max_threads();
    const std::optional<double> share = cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    return share ? std::clamp(static_cast<int>(std::floor(*share)), 1, allowed) : allowed;
  }();
  return cores;
}

}  // namespace fovea
