#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "core/recording.h"
#include "place.h"

namespace fovea::python {
namespace {

cudaStream_t handle(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }

// Of two names of the default stream, the one that __dlpack__ knows.
Stream number(cudaStream_t stream) { return stream == nullptr ? 1 : reinterpret_cast<Stream>(stream); }

// What comes next on one stream waits for all that is on the other.
void order(cudaStream_t first, cudaStream_t then) {
  constexpr const char* kWhere = "the order of two streams";
  cudaEvent_t reached = nullptr;
  device::check_cuda(cudaEventCreateWithFlags(&reached, cudaEventDisableTiming), kWhere);
  const cudaError_t recorded = cudaEventRecord(reached, first);
  const cudaError_t waits = recorded == cudaSuccess ? cudaStreamWaitEvent(then, reached) : recorded;
  cudaEventDestroy(reached);
  device::check_cuda(waits, kWhere);
}

}  // namespace

std::shared_ptr<Memory> Streams<Device::cuda>::memory_of(const Place& place) {
  return std::make_shared<device::CardMemory>(device::CardMemory::Place{place.index, handle(place.stream)});
}

Stream Streams<Device::cuda>::stream_of(Memory& memory) { return number(device::card_memory(memory).stream()); }

void Streams<Device::cuda>::follow(Memory& memory, Stream other) {
  if (stream_of(memory) == other) return;
  memory.enter();
  order(handle(other), device::card_memory(memory).stream());
}

void Streams<Device::cuda>::precede(Memory& memory, Stream other) {
  if (stream_of(memory) == other) return;
  memory.enter();
  order(device::card_memory(memory).stream(), handle(other));
}

void Streams<Device::cuda>::finish(Memory& memory) {
  memory.enter();
  device::check_cuda(cudaStreamSynchronize(device::card_memory(memory).stream()), "a card's stream");
}

void Streams<Device::cuda>::finish_all(Memory& memory) {
  memory.enter();
  const auto outside = Recording::outside();
  device::check_cuda(cudaDeviceSynchronize(), "a card");
}

int Streams<Device::cuda>::current() {
  int index = 0;
  device::check_cuda(cudaGetDevice(&index), "a card");
  return index;
}

void Streams<Device::cuda>::select(int index) { cudaSetDevice(index); }

}  // namespace fovea::python
