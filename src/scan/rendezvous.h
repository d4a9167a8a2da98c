#pragma once

#include <atomic>
#include <thread>

namespace fovea::scan {

// Where a few threads of a team wait for each other; a team's own barrier would make all of its threads come.
class Rendezvous {
 public:
  // Returns when `parties` threads have called it. They must stay the same ones from call to call.
  void wait(int parties) {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins)
      if (spins > kSpins) std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 4096;  // some microseconds: a chunk's imbalance; beyond that a core is shared

  alignas(64) std::atomic<int> arrived_{0};
  std::atomic<unsigned> round_{0};
};

}  // namespace fovea::scan
