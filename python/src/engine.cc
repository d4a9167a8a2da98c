#include "engine.h"

#include <pthread.h>

#include <atomic>
#include <map>
#include <mutex>

#include "core/devices.h"

namespace fovea::python {
namespace {

constexpr double kWorthSharing = 1 << 20;

std::atomic<bool> g_forked{false};

struct Contexts {
  Contexts() {
    pthread_atfork(nullptr, nullptr, [] { g_forked = true; });
  }

  // Of a card; kept for good, as the streams of frameworks are.
  std::shared_ptr<Context> on(const Place& place) {
    if (g_forked && !cards.empty())
      fail(ErrorCode::unsupported, "a child of fork() cannot go on with the cards of its parent", name_of(place),
           "multiprocessing.set_start_method(\"spawn\")");
    const std::lock_guard lock(mutex);
    std::shared_ptr<Context>& context = cards[{place.index, place.stream}];
    if (context == nullptr) {
      auto pages = visit_built(BuiltDevices(), place.device, [&]<Device D>() { return Streams<D>::memory_of(place); });
      context = std::make_shared<Context>(ContextOptions{.pages = std::move(pages)});
    }
    return context;
  }

  std::mutex mutex;
  std::shared_ptr<Context> wide = std::make_shared<Context>();
  std::map<std::pair<int, Stream>, std::shared_ptr<Context>> cards;
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

std::shared_ptr<Context> context_for(double multiplications, const Place& place) {
  Contexts& all = contexts();
  if (place.device != Device::cpu) return all.on(place);
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

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const DeviceState& state : devices())
    for (std::size_t i = 0; i < state.list.size(); ++i)
      names.push_back(name_of(Place{state.device, static_cast<int>(i)}));
  return names;
}

void empty_cache() {
  const std::lock_guard lock(contexts().mutex);
  for (const auto& [place, context] : contexts().cards) {
    if (context == nullptr) continue;
    take_back(*context->memory());
    context->allocator()->trim();
  }
}

Running::Running() : stop_(is_interrupted) {}

}  // namespace fovea::python
