#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/devices.h"
#include "core/make_memory.h"

namespace fovea {
namespace {

constexpr std::size_t kBlockAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Blocks of 2 MB and more ask for huge pages.
class HostMemory : public Memory {
 public:
  HostMemory() : Memory(Device::cpu) {}

  std::size_t size() const override { return pages(_SC_PHYS_PAGES); }
  std::size_t available() const override { return pages(_SC_AVPHYS_PAGES); }
  void* map(std::size_t bytes) override {
    const bool huge = bytes >= kHugePage;
    const std::size_t align = huge ? kHugePage : kBlockAlign;
    void* data = std::aligned_alloc(align, (bytes + align - 1) / align * align);
    if (data != nullptr && huge) madvise(data, bytes, MADV_HUGEPAGE);  // advice only: small pages work too
    return data;
  }
  void unmap(void* data, std::size_t) override { std::free(data); }
  void fill(void* to, unsigned char value, std::size_t bytes) override { std::memset(to, value, bytes); }
  void write(void* to, const void* host, std::size_t bytes) override { std::memcpy(to, host, bytes); }
  void read(void* host, const void* from, std::size_t bytes) override { std::memcpy(host, from, bytes); }

 private:
  static std::size_t pages(int name) {
    return static_cast<std::size_t>(sysconf(name)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }
};

}  // namespace

Memory::~Memory() = default;

std::shared_ptr<Memory> make_host_memory() { return std::make_shared<HostMemory>(); }

const std::shared_ptr<Memory>& borrowed_memory() {
  static const auto* const memory = new std::shared_ptr<Memory>(make_host_memory());  // tensors may outlive statics
  return *memory;
}

template <>
std::shared_ptr<Memory> kernels::make_memory<Device::cpu>(int) {
  return make_host_memory();
}

template <>
DeviceState kernels::look_at_devices<Device::cpu>() {
  const std::size_t bytes = borrowed_memory()->size();
  return {Device::cpu, {{"CPU", bytes, bytes}}, {}, {}};
}

}  // namespace fovea
