#include "measure/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>

#include "core/cores.h"
#include "core/isa.h"
#include "gemm/rate.h"

namespace fovea {
namespace {

// The text after "name :" on the first such line of a file like /proc/cpuinfo.
std::string line_value(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> cpu_features() {
  constexpr const char* kWanted[] = {"avx2",        "fma",      "f16c",  "avx512f", "avx512bw", "avx512vl",
                                     "avx512_bf16", "amx_bf16", "asimd", "bf16",    "sve"};
  std::istringstream flags(line_value("/proc/cpuinfo", "flags") + " " + line_value("/proc/cpuinfo", "Features"));
  const std::vector<std::string> all{std::istream_iterator<std::string>(flags), {}};
  std::vector<std::string> found;
  for (const char* name : kWanted)
    if (std::find(all.begin(), all.end(), name) != all.end()) found.emplace_back(name);
  return found;
}

int allowed_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

// "23456 kB" in bytes.
std::size_t memory_bytes(const std::string& name) {
  std::istringstream text(line_value("/proc/meminfo", name));
  std::size_t kilobytes = 0;
  text >> kilobytes;
  return kilobytes * 1024;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The setting in brackets of "always [madvise] never".
std::string huge_page_setting() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = line.find('['), close = line.find(']');
  return open < close && close != std::string::npos ? line.substr(open + 1, close - open - 1) : "";
}

std::string system_name() {
  utsname name{};
  if (uname(&name) != 0) return "";
  return fmt::format("{} {}", name.sysname, name.machine);
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = line_value("/proc/cpuinfo", "model name");
  machine.features = cpu_features();
  machine.cores = allowed_cores();
  machine.core_time = cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup").value_or(0.0);
  machine.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  machine.memory = memory_bytes("MemTotal");
  machine.memory_free = memory_bytes("MemAvailable");
  machine.huge_pages = huge_page_setting();
  machine.system = system_name();
  return machine;
}

std::string Machine::text() const {
  return fmt::format("{}, {} core{}, {}, {:.0f} GB, {}", cpu.empty() ? "unknown CPU" : cpu, cores,
                     cores == 1 ? "" : "s", name_of(chosen_isa()), static_cast<double>(memory) / 1e9, system);
}

std::string onednn_version() {
  const std::string library = gemm::product_library(Device::cpu);
  return library.substr(library.find(' ') + 1);
}

std::string compiler_version() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

}  // namespace fovea
