#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "core/built_devices.h"
#include "fovea/memory.h"

namespace fovea {

// What a device is given to do, noted once and played again: the kernels with all they were called with, in the memory
// they had then. Numbers of the host are part of it as they were, but for those that are fed (tensor/feed.h) and random
// streams, which go on. On the CPU a recording is the function itself, called again: it shows in tests what is fed.
class Recording {
 public:
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Notes what `body` enqueues on the queue of a memory. Nothing runs. Throws what the body throws and, as
  // `unsupported`, why it cannot be noted.
  static std::unique_ptr<Recording> make(Memory& memory, std::function<void()> body);
  // Does a device gain from it?
  static bool pays(Device device) { return device == Device::cuda; }

  // The one that this thread is making; null: what it enqueues runs.
  static Recording* current();
  // Ends the recording that this thread is making, if it is: what comes next cannot be part of one.
  static void refuse(const char* why);
  // No other thread makes one as long as this lives: what the holder enqueues is part of none. Does not nest.
  static std::shared_lock<std::shared_mutex> outside();

  // Feeds, runs; `shift` is added to the streams of random numbers. False: a feed brought another shape, nothing ran.
  bool play(std::uint64_t shift);

  // While it is being made.
  void feed(std::function<bool()> bring);                // called before each play; false: what it has does not fit
  void keep(std::shared_ptr<const void> used);           // for as long as it may be played
  const std::uint64_t* shift() const { return shift_; }  // where kernels find it; null: nowhere, it is 0

  bool is_feeding() const { return feeding_; }

 protected:
  Recording() = default;
  virtual void record(const std::function<void()>& body) = 0;
  virtual void launch(std::uint64_t shift) = 0;
  bool bring_all();

  const std::uint64_t* shift_ = nullptr;
  bool brings_at_once_ = false;  // what is fed is needed while the body runs
  std::vector<std::function<bool()>> feeds_;

 private:
  friend class Making;

  std::vector<std::shared_ptr<const void>> kept_;
  bool feeding_ = false;
};

// Makes a recording the current one of this thread.
class Making {
 public:
  explicit Making(Recording& recording);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
};

namespace kernels {

template <Device>
std::unique_ptr<Recording> new_recording(Memory& memory, std::function<void()> body);

}  // namespace kernels
}  // namespace fovea
