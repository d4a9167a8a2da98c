#include "place.h"

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fovea::python {
namespace {

// Results that were given back, by the memory they lie in.
struct Returned {
  std::mutex mutex;
  std::unordered_map<const Memory*, std::vector<Tensor>> results;

  static Returned& instance() {
    static auto* const one = new Returned;  // for good: results may be given back after statics are gone
    return *one;
  }
  void add(Tensor result) {
    const std::lock_guard lock(mutex);
    results[result.memory().get()].push_back(std::move(result));
  }
  std::vector<Tensor> take(const Memory& memory) {
    const std::lock_guard lock(mutex);
    const auto found = results.find(&memory);
    return found == results.end() ? std::vector<Tensor>() : std::exchange(found->second, {});
  }
};

}  // namespace

void give_back(Tensor result, Stream reader) noexcept {
  if (result.numel() == 0) return;
  Memory& memory = *result.memory();
  if (with_streams(memory, [&]<Device D>() { return Streams<D>::stream_of(memory); }) != reader)
    Returned::instance().add(std::move(result));
}

void take_back(Memory& memory) {
  std::vector<Tensor> results = Returned::instance().take(memory);
  if (results.empty()) return;
  try {
    with_streams(memory, [&]<Device D>() { Streams<D>::finish_all(memory); });
  } catch (...) {  // they may still be read
    for (Tensor& result : results) Returned::instance().add(std::move(result));
    throw;
  }
}

Turn::Turn(const std::shared_ptr<Memory>& memory, const Place& place)
    : memory_(memory), place_(place), chosen_(with_streams(*memory, []<Device D>() { return Streams<D>::current(); })) {
  take_back(*memory_);
  if (place_.stream != 0) with_streams(*memory_, [&]<Device D>() { Streams<D>::follow(*memory_, place_.stream); });
}

void Turn::end() {
  ended_ = true;
  with_streams(*memory_, [&]<Device D>() {
    if (place_.stream != 0)
      Streams<D>::precede(*memory_, place_.stream);
    else
      Streams<D>::finish(*memory_);
  });
}

Turn::~Turn() {
  with_streams(*memory_, [&]<Device D>() {
    try {
      if (!ended_) Streams<D>::finish(*memory_);  // its arrays may go as soon as the error is told
    } catch (const Error&) {                      // the error that ended the turn is on its way
    }
    Streams<D>::select(chosen_);
  });
}

}  // namespace fovea::python
