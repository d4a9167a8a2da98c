#include "core/recording.h"

#include "core/stream_shift.h"
#include "core/visit_device.h"

namespace fovea {
namespace {

thread_local Recording* t_recording = nullptr;
std::shared_mutex g_making;  // one recording is made at a time

}  // namespace

Recording* Recording::current() { return t_recording; }

void Recording::refuse(const char* why) {
  if (t_recording != nullptr && !t_recording->feeding_)
    fail(ErrorCode::unsupported, why, {}, "nothing: it runs as it is");
}

std::shared_lock<std::shared_mutex> Recording::outside() {
  return t_recording != nullptr ? std::shared_lock<std::shared_mutex>() : std::shared_lock(g_making);
}

const std::uint64_t* stream_shift() { return t_recording == nullptr ? nullptr : t_recording->shift(); }

Making::Making(Recording& recording) { t_recording = &recording; }
Making::~Making() { t_recording = nullptr; }

std::unique_ptr<Recording> Recording::make(Memory& memory, std::function<void()> body) {
  std::unique_ptr<Recording> recording;
  const std::unique_lock lock(g_making);  // gone before a recording that is given up: what it holds waits for the lock
  recording = visit_built(BuiltDevices(), kernels_of(memory.device()),
                          [&]<Device D>() { return kernels::new_recording<D>(memory, body); });
  recording->record(body);
  return recording;
}

bool Recording::bring_all() {
  feeding_ = true;
  bool fits = true;
  try {
    for (const auto& bring : feeds_) fits = fits && bring();
  } catch (...) {
    feeding_ = false;
    throw;
  }
  feeding_ = false;
  return fits;
}

bool Recording::play(std::uint64_t shift) {
  if (!bring_all()) return false;
  launch(shift);
  return true;
}

void Recording::feed(std::function<bool()> bring) {
  feeds_.push_back(std::move(bring));
  if (!brings_at_once_) return;
  feeding_ = true;
  const bool fits = feeds_.back()();
  feeding_ = false;
  if (!fits) fail(ErrorCode::internal, "a feed does not fit what it has just made");
}

void Recording::keep(std::shared_ptr<const void> used) { kept_.push_back(std::move(used)); }

}  // namespace fovea
