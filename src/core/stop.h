#pragma once

#include <atomic>
#include <chrono>

namespace fovea {

// Lets a caller stop what it has begun. While one of these lives, the operations that its thread starts ask `question`
// ten times a second, on that thread and between two pieces of work; once the answer is yes they end with an Error
// (interrupted), and what they were writing is left half done.
class Stop {
 public:
  explicit Stop(bool (*question)());
  ~Stop();
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  // That of the calling thread; null when there is none, or inside a parallel region: threads of a team ask its first.
  static Stop* current();

  void ask();  // only on the thread that made it
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void check();  // asks, and throws when the answer was yes

 private:
  bool (*question_)();
  Stop* outer_;
  std::atomic<bool> wanted_{false};
  std::chrono::steady_clock::time_point next_;
};

}  // namespace fovea
