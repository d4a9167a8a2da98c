#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fovea/export.h"

namespace fovea {

enum class Device : std::uint8_t {
  cpu,
  cuda,
  fenced,  // host memory that only kernels may touch, those of the cpu: it shows in tests who else does
};

FOVEA_EXPORT std::string_view name_of(Device device);

// The memory of a device: raw pages, and the way of bytes to and from the host.
class FOVEA_EXPORT Memory {
 public:
  explicit Memory(Device device) : device_(device) {}
  virtual ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Device device() const { return device_; }
  virtual std::size_t size() const = 0;                     // bytes there are
  virtual std::size_t available() const { return size(); }  // those that nobody has

  virtual void* map(std::size_t bytes) = 0;  // 64-byte aligned; null when there are no more
  virtual void unmap(void* data, std::size_t bytes) = 0;
  virtual void fill(void* to, unsigned char value, std::size_t bytes) = 0;
  virtual void write(void* to, const void* host, std::size_t bytes) = 0;
  virtual void read(void* host, const void* from, std::size_t bytes) = 0;  // waits for what is being computed

  // Around every kernel (core/visit_device.h); they nest.
  virtual void enter() {}
  virtual void leave() {}

  // How many threads a copy without a context may use: those of the context that made it.
  int threads() const { return threads_.load(std::memory_order_relaxed); }
  void set_threads(int threads) { threads_.store(threads, std::memory_order_relaxed); }

 private:
  Device device_;
  std::atomic<int> threads_{1};
};

// Ordinary memory, with a number of threads of its own.
FOVEA_EXPORT std::shared_ptr<Memory> make_host_memory();
// That of memory somebody else owns.
FOVEA_EXPORT const std::shared_ptr<Memory>& borrowed_memory();

// How long a block lives: weights, gradients and optimiser state; what one training step keeps;
// what one operation needs while it runs.
enum class Lifetime : std::uint8_t { persistent, step, scratch };

struct MemoryUse {
  std::size_t now = 0;
  std::size_t peak = 0;
};

// Hands out 64-byte aligned blocks and keeps returned ones for reuse: a fresh page costs more than the arithmetic
// of a linear attention on it. Thread-safe.
class FOVEA_EXPORT Allocator {
 public:
  struct Options {
    std::size_t limit = 0;  // bytes in use at once; 0: what the device has
    bool poison = false;    // fill every block with NaN before handing it out (tests)
  };
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;  // at least what was asked for, which alone may be touched
    Lifetime lifetime = Lifetime::step;
  };

  explicit Allocator(Options options, std::shared_ptr<Memory> memory = make_host_memory());
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  Block allocate(std::size_t bytes, Lifetime lifetime);
  void release(const Block& block);
  const std::shared_ptr<Memory>& memory() const { return memory_; }

  std::size_t limit() const { return options_.limit; }
  MemoryUse use(Lifetime lifetime) const;
  MemoryUse total() const;
  void reset_peaks();  // peaks restart at what is in use now
  void trim();         // gives cached blocks back to the system

 private:
  void* take_cached(std::size_t bytes);
  void* map_fresh(std::size_t bytes);
  void unmap_cached();
  std::size_t gap() const;  // bytes behind a block that tests watch
  void count(Lifetime lifetime, std::size_t bytes);

  Options options_;
  std::shared_ptr<Memory> memory_;
  bool host_;  // this process can touch it
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> cached_;  // block size -> free blocks
  std::array<MemoryUse, 3> use_{};
  MemoryUse total_{};
};

}  // namespace fovea
