#include "measure/load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace fovea {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

LoadMeter::Busy LoadMeter::Busy::now() {
  Busy busy;
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0;
  if (file >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft && name == "cpu")
    busy.all = (user + nice + system + interrupts + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (getrusage(who, &usage) == 0) busy.own += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  return busy;
}

LoadMeter::LoadMeter() : start_(std::chrono::steady_clock::now()), before_(Busy::now()) {}

double LoadMeter::others() const {
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const Busy now = Busy::now();
  return wall > 0.0 ? std::max(0.0, (now.all - before_.all) - (now.own - before_.own)) / wall : 0.0;
}

std::string load_warning(double others, int cores) {
  if (others < kOthersShown * cores) return {};
  return fmt::format("other programs kept {:.1f} of {} cores busy meanwhile: times and speeds are not to be trusted",
                     others, cores);
}

}  // namespace fovea
