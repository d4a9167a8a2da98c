#include "engine.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace fovea::python {
namespace {

constexpr double kWorthSharing = 1 << 20;

std::atomic<bool> g_forked{false};

struct Contexts {
  Contexts() {
    pthread_atfork(nullptr, nullptr, [] { g_forked = true; });
  }

  std::mutex mutex;
  std::shared_ptr<Context> wide = std::make_shared<Context>();
  std::shared_ptr<Context> narrow = std::make_shared<Context>(ContextOptions{.threads = 1});
};

Contexts& contexts() {
  static auto* const all = new Contexts;  // for good: a thread may still be at work when the process ends
  return *all;
}

// Signals reach Python's main thread; for others the answer is always no.
bool is_interrupted() {
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

}  // namespace

std::shared_ptr<Context> context_for(double multiplications) {
  Contexts& all = contexts();
  if (g_forked || multiplications < kWorthSharing) return all.narrow;
  const std::lock_guard lock(all.mutex);
  return all.wide;
}

void set_threads(int threads) {
  const auto wide = std::make_shared<Context>(ContextOptions{.threads = threads});
  const std::lock_guard lock(contexts().mutex);
  contexts().wide = wide;
}

int threads() { return context_for(kWorthSharing)->threads(); }

Running::Running() : stop_(is_interrupted) {}

}  // namespace fovea::python
