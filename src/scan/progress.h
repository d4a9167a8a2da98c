#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace fovea::scan {

// How far a thread has come in work that others follow. Followers run a few steps ahead before they look, so that they
// hardly ever wait; a barrier at every step would cost a time slice whenever a core is shared.
class alignas(64) Progress {
 public:
  std::int64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  // Everything written before is visible to those who have waited for this step.
  void publish(std::int64_t steps) { steps_.store(steps, std::memory_order_release); }
  void wait_for(std::int64_t steps) const {
    for (int spins = 0; steps_.load(std::memory_order_acquire) < steps; ++spins)
      if (spins > kSpins) std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 1 << 14;  // some 10 us

  std::atomic<std::int64_t> steps_{0};
};

}  // namespace fovea::scan
