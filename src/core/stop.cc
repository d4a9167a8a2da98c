#include "core/stop.h"

#include <omp.h>

#include "fovea/error.h"

namespace fovea {
namespace {

constexpr std::chrono::milliseconds kPause{100};
thread_local Stop* t_current = nullptr;

}  // namespace

Stop::Stop(bool (*question)())
    : question_(question), outer_(t_current), next_(std::chrono::steady_clock::now() + kPause) {
  t_current = this;
}

Stop::~Stop() { t_current = outer_; }

Stop* Stop::current() { return t_current == nullptr || omp_in_parallel() != 0 ? nullptr : t_current; }

void Stop::ask() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_ || wanted()) return;
  next_ = now + kPause;
  if (question_()) wanted_.store(true, std::memory_order_relaxed);
}

void Stop::check() {
  ask();
  if (wanted()) fail(ErrorCode::interrupted, "stopped before the end");
}

}  // namespace fovea
