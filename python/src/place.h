#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/visit_device.h"
#include "fovea/memory.h"
#include "fovea/tensor.h"

// Where the arrays of a call lie, and in whose order its work is done.
namespace fovea::python {

// A queue of work on a card, numbered as __dlpack__ does: 1 the default one, 2 that of the thread, else a handle.
using Stream = std::uintptr_t;

struct Place {
  Device device = Device::cpu;
  int index = 0;
  Stream stream = 0;  // the caller's; 0: it has none, so the card's own is used and results are waited for
};

inline std::string name_of(const Place& place) {
  return place.device == Device::cpu ? "cpu"
                                     : std::string(fovea::name_of(place.device)) + ":" + std::to_string(place.index);
}

// What a kind of device does with streams: nothing where it has none.
template <Device>
struct Streams {
  static std::shared_ptr<Memory> memory_of(const Place&) { return make_host_memory(); }
  static Stream stream_of(Memory&) { return 0; }
  static void follow(Memory&, Stream) {}
  static void precede(Memory&, Stream) {}
  static void finish(Memory&) {}
  static void finish_all(Memory&) {}
  static int current() { return 0; }
  static void select(int) {}
};

template <>
struct Streams<Device::cuda> {
  static std::shared_ptr<Memory> memory_of(const Place& place);  // whose stream is that of the place
  static Stream stream_of(Memory& memory);
  static void follow(Memory& memory, Stream other);   // the memory's stream waits for all that is on the other
  static void precede(Memory& memory, Stream other);  // and the other way round
  static void finish(Memory& memory);                 // the host waits
  static void finish_all(Memory& memory);             // for all streams of the card
  static int current();                               // the card that the calling thread has chosen
  static void select(int index);
};

// Calls f.operator()<D>() for the kind of device that a memory is of.
template <class F>
auto with_streams(const Memory& memory, const F& f) {
  return visit_built(BuiltDevices(), kernels_of(memory.device()), f);
}

// A result is given back by somebody who read it on `reader`. A stream other than the memory's may be gone by now, and
// whatever is asked of one that is gone may end the process. So nothing is: the result waits for take_back().
void give_back(Tensor result, Stream reader) noexcept;
// Lets the memory of such results be used again; the host waits until the card has done all it was given. Nothing is
// done where there are none.
void take_back(Memory& memory);

// Work for a caller: after what is on its stream, before what it puts there next. The card that the caller has chosen
// stays chosen.
class Turn {
 public:
  Turn(const std::shared_ptr<Memory>& memory, const Place& place);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void end();  // refuses what went wrong; without it the work is given up, and nothing of it still runs afterwards

 private:
  std::shared_ptr<Memory> memory_;
  Place place_;
  int chosen_;
  bool ended_ = false;
};

}  // namespace fovea::python
