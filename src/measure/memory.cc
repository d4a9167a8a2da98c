#include "measure/memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace fovea {
namespace {

// A line such as "VmHWM:   123 kB" of /proc/self/status, in bytes; 0 when there is none.
std::size_t status_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string key;
  while (file >> key) {
    std::size_t kilobytes = 0;
    if (key == name + ":" && file >> kilobytes) return kilobytes * 1024;
    std::getline(file, key);
  }
  return 0;
}

// Lets the peak of the resident size start again at what is resident now.
bool reset_resident_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

}  // namespace

PeakMemory::PeakMemory(const Context& context) : context_(context) {
  context.allocator()->trim();
  context.allocator()->reset_peaks();
  allocated_ = context.allocator()->total().now;
  resident_ = status_bytes("VmRSS");
  system_tells_ = reset_resident_peak();
}

std::size_t PeakMemory::extra_bytes() const {
  const std::size_t allocated = context_.allocator()->total().peak - allocated_;
  if (!system_tells_) return allocated;
  const std::size_t peak = std::max(peak_resident_bytes(), resident_);
  return std::max(allocated, peak - resident_);
}

std::size_t peak_resident_bytes() { return status_bytes("VmHWM"); }

}  // namespace fovea
