#pragma once

#include <cstdint>
#include <memory>

#include "fovea/export.h"
#include "fovea/memory.h"
#include "fovea/zones.h"

namespace fovea {

struct ContextOptions {
  int threads = 0;  // 0: OMP_NUM_THREADS, else every core that the process may use
  std::uint64_t seed = 0;
  Device device = Device::cpu;
  int index = 0;      // of several cards
  bool tf32 = false;  // may a card multiply f32 with 10 bits? (tensor cores: several times as fast)
  Allocator::Options memory = {};
  std::shared_ptr<Memory> pages = nullptr;  // where blocks come from, and the device; null: a memory of `device`
};

// Everything an operation needs from outside its arguments. Passed, never global.
class FOVEA_EXPORT Context {
 public:
  explicit Context(ContextOptions options = {});

  int threads() const { return options_.threads; }
  void set_threads(int threads);
  std::uint64_t seed() const { return options_.seed; }
  Device device() const { return options_.device; }
  bool tf32() const { return options_.tf32; }
  const std::shared_ptr<Memory>& memory() const { return allocator_->memory(); }
  const std::shared_ptr<Allocator>& allocator() const { return allocator_; }
  ZoneTimes& zones() const { return *zones_; }

 private:
  ContextOptions options_;
  std::shared_ptr<Allocator> allocator_;  // shared with the tensors, which may outlive the context
  std::unique_ptr<ZoneTimes> zones_ = std::make_unique<ZoneTimes>();
};

}  // namespace fovea
