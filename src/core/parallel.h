#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "core/signals.h"
#include "core/stop.h"
#include "fovea/context.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#define FOVEA_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define FOVEA_TSAN_RELEASE(address) __tsan_release(address)
#define FOVEA_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define FOVEA_TSAN_ACQUIRE(address) static_cast<void>(address)
#define FOVEA_TSAN_RELEASE(address) static_cast<void>(address)
#define FOVEA_NO_TSAN
#endif

namespace fovea {

// The threads of one parallel region, as seen by one of them.
class Team {
 public:
  Team(int rank, int size, std::atomic<std::int64_t>& ticket, Stop* stop)
      : rank_(rank), size_(size), ticket_(&ticket), stop_(stop) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Waits until every thread of the team is here. Every thread must call it equally often.
  void barrier() const {
    FOVEA_TSAN_RELEASE(ticket_);
#pragma omp barrier
    FOVEA_TSAN_ACQUIRE(ticket_);
  }

  // Does the caller want to stop? A task of many seconds asks now and then, where nobody waits for the rest of it.
  bool stopping() const {
    if (stop_ == nullptr) return false;
    if (rank_ == 0) stop_->ask();
    return stop_->wanted();
  }

  // The next number nobody in the team has taken: a dynamic schedule, in order. Once the caller wants to stop there are
  // none left; what was taken is done to its end, so nobody waits for a turn that never comes.
  std::int64_t take() const { return stopping() ? kNone : ticket_->fetch_add(1, std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kNone = std::int64_t{1} << 40;  // beyond every count, and its multiples do not overflow

  int rank_, size_;
  std::atomic<std::int64_t>* ticket_;
  Stop* stop_;
};

// The region itself. The thread sanitizer cannot see how libgomp hands it to the threads, so this function is not
// instrumented and says what is ordered: the start after what was before, and what comes after behind the end. Two
// addresses, lest the end of one thread seem ordered before the start of another.
template <class Run>
FOVEA_NO_TSAN void launch(int threads, const Run& run) {
  char start = 0, end = 0;
  FOVEA_TSAN_RELEASE(&start);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    if (omp_get_thread_num() != 0) SignalPause::forever();  // handlers have the threads that callers made
    FOVEA_TSAN_ACQUIRE(&start);
    run();
    FOVEA_TSAN_RELEASE(&end);
  }
  FOVEA_TSAN_ACQUIRE(&end);
}

// Runs body(team) on `threads` threads and waits. All parallel loops of fovea pass through here: one place decides
// about exceptions (the first one is rethrown), nesting, what the thread sanitizer may see of libgomp, and stopping
// early. A body that uses barriers must not throw between them.
template <class Body>
void parallel(int threads, Body&& body) {
  std::atomic<std::int64_t> ticket{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  Stop* const stop = Stop::current();
  launch(threads, [&] {
    try {
      body(Team(omp_get_thread_num(), omp_get_num_threads(), ticket, stop));
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  if (stop != nullptr) stop->check();
}

// Runs body(i) for i in [0, count), each exactly once, handed out in order.
template <class Body>
void parallel_for(const Context& context, std::int64_t count, Body&& body) {
  const int threads = static_cast<int>(std::min<std::int64_t>(context.threads(), count));
  if (threads <= 1) {
    Stop* const stop = Stop::current();
    for (std::int64_t i = 0; i < count; ++i) {
      if (stop != nullptr) stop->check();
      body(i);
    }
    return;
  }
  parallel(threads, [&](const Team& team) {
    for (std::int64_t i = team.take(); i < count; i = team.take()) body(i);
  });
}

// Splits [0, count) into pieces of `grain` and runs body(begin, end) on them. The pieces depend on count and grain
// alone, never on the number of threads.
template <class Body>
void parallel_ranges(const Context& context, std::int64_t count, std::int64_t grain, Body&& body) {
  parallel_for(context, (count + grain - 1) / grain,
               [&](std::int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); });
}

}  // namespace fovea
