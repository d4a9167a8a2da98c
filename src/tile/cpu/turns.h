#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "hwy/cache_control.h"

// The key blocks of a unit add to the same dq, possibly from several threads. They do so in turns, one query block at a
// time and in the order of the keys: one sum then serves any number of threads, and has the same bits at all of them.
// Key blocks are handed out in order and walk over the queries in the same order, so a thread only ever waits for
// threads in front of it, and the first waits for nobody.
namespace fovea::tile {

// Waits until `visits` others have been to a block.
inline void await_turn(std::int32_t& count, std::int32_t visits) {
  constexpr int kSpins = 4096;  // about a tile's time; then let others have the core
  const std::atomic_ref<std::int32_t> seen(count);
  for (int left = kSpins; seen.load(std::memory_order_acquire) != visits;) {
    if (left > 0) {
      --left;
      hwy::Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

inline void pass_turn(std::int32_t& count) {
  std::atomic_ref<std::int32_t>(count).fetch_add(1, std::memory_order_release);
}

}  // namespace fovea::tile
