#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fovea/export.h"

namespace fovea {

// How long a block lives: weights, gradients and optimiser state; what one training step keeps;
// what one operation needs while it runs.
enum class Lifetime : std::uint8_t { persistent, step, scratch };

struct MemoryUse {
  std::size_t now = 0;
  std::size_t peak = 0;
};

// Hands out 64-byte aligned blocks and keeps returned ones for reuse: a fresh page costs more than the arithmetic
// of a linear attention on it. Blocks of 2 MB and more ask for huge pages. Thread-safe.
class FOVEA_EXPORT Allocator {
 public:
  struct Options {
    std::size_t limit = 0;  // bytes in use at once; 0: what the machine has
    bool poison = false;    // fill every block with NaN before handing it out (tests)
  };
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;  // at least what was asked for, which alone may be touched
    Lifetime lifetime = Lifetime::step;
  };

  explicit Allocator(Options options);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  Block allocate(std::size_t bytes, Lifetime lifetime);
  void release(const Block& block);

  std::size_t limit() const { return options_.limit; }
  MemoryUse use(Lifetime lifetime) const;
  MemoryUse total() const;
  void reset_peaks();  // peaks restart at what is in use now
  void trim();         // gives cached blocks back to the system

 private:
  void* take_cached(std::size_t bytes);
  void* map_fresh(std::size_t bytes);
  void count(Lifetime lifetime, std::size_t bytes);

  Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> cached_;  // block size -> free blocks
  std::array<MemoryUse, 3> use_{};
  MemoryUse total_{};
};

}  // namespace fovea
