#include "core/cuda/card_memory.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>

#include "core/cuda/cards.h"
#include "core/cuda/memory.h"
#include "core/cuda/uploads.h"
#include "core/make_memory.h"
#include "core/recording.h"

namespace fovea::device {
namespace {

// What the driver keeps of blocks that were given back; the allocator has its own and gives back only when it must.
constexpr std::uint64_t kKeptByDriver = std::uint64_t{256} << 20;

// One for each card, for as long as the program runs: tensors may outlive statics.
cudaStream_t stream_of_card(int index) {
  static std::mutex mutex;
  static auto* const streams = new std::unordered_map<int, cudaStream_t>;
  const std::lock_guard lock(mutex);
  cudaStream_t& stream = (*streams)[index];
  if (stream == nullptr) check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a card's stream");
  return stream;
}

cudaMemPool_t pool_of(int index) {
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, index), "a card's memory");
  return pool;
}

std::uint64_t attribute_of(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  check_cuda(cudaMemPoolGetAttribute(pool, attribute, &value), "a card's memory");
  return value;
}

void select(int index) { check_cuda(cudaSetDevice(index), "a card"); }

// Memory while a step is being recorded: on a stream of its own, waited for, as the other one only takes notes.
cudaError_t allocate_beside(void** data, std::size_t bytes) {
  cudaStream_t beside = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking), "a card's memory");
  const cudaError_t status = cudaMallocAsync(data, bytes, beside);
  cudaStreamSynchronize(beside);
  cudaStreamDestroy(beside);
  return status;
}

// A list of the host is part of the recording: it is kept on the card, and copied from there each time.
void note_write(Recording& recording, void* to, std::span<const std::byte> list, cudaStream_t stream) {
  Uploader uploader;
  uploader.place(std::vector<std::byte>(list.begin(), list.end()));
  const auto kept = std::make_shared<const DeviceBuffer>(uploader.upload());
  check_cuda(cudaMemcpyAsync(to, kept->data(), list.size(), cudaMemcpyDeviceToDevice, stream), "recording a step");
  recording.keep(kept);
}

// Given back when the recording ends.
struct LentBlock {
  void* data;
  cudaStream_t stream;
  ~LentBlock() { cudaFreeAsync(data, stream); }
};

}  // namespace

Staging::~Staging() {
  for (const Part& part : parts_) {
    if (part.done != nullptr) cudaEventSynchronize(part.done);
    if (part.done != nullptr) cudaEventDestroy(part.done);
    cudaFreeHost(part.data);
  }
}

const Staging::Part& Staging::take() {
  Part& part = parts_[next_++ % parts_.size()];
  if (part.data == nullptr) {
    check_cuda(cudaMallocHost(reinterpret_cast<void**>(&part.data), kPart), "pinned memory");
    check_cuda(cudaEventCreateWithFlags(&part.done, cudaEventDisableTiming), "pinned memory");
  }
  check_cuda(cudaEventSynchronize(part.done), "a copy to or from the card");
  return part;
}

void Staging::write(void* to, const void* host, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const std::size_t count = std::min(kPart, bytes - at);
    const Part& part = take();
    std::memcpy(part.data, static_cast<const std::byte*>(host) + at, count);
    check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, part.data, count, cudaMemcpyHostToDevice, stream),
               "a copy to the card");
    check_cuda(cudaEventRecord(part.done, stream), "a copy to the card");
  }
}

void Staging::read(void* host, const void* from, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const Part* before = nullptr;
  std::size_t before_at = 0;
  for (std::size_t at = 0; at < bytes || before != nullptr; at += kPart) {
    const Part* part = nullptr;
    if (at < bytes) {
      part = &take();
      check_cuda(cudaMemcpyAsync(part->data, static_cast<const std::byte*>(from) + at, std::min(kPart, bytes - at),
                                 cudaMemcpyDeviceToHost, stream),
                 "a copy from the card");
      check_cuda(cudaEventRecord(part->done, stream), "a copy from the card");
    }
    if (before != nullptr) {
      check_cuda(cudaEventSynchronize(before->done), "a copy from the card");
      std::memcpy(static_cast<std::byte*>(host) + before_at, before->data, std::min(kPart, bytes - before_at));
    }
    before = part;
    before_at = at;
  }
}

CardMemory::CardMemory(const Place& place)
    : Memory(Device::cuda), index_(place.index), stream_(place.stream), owns_stream_(place.stream == nullptr) {
  const Card& card = card_at(cards(), index_);
  size_ = card.bytes;
  check_cuda(cudaSetDevice(index_), "a card");
  if (owns_stream_) stream_ = stream_of_card(index_);
  std::uint64_t kept = kKeptByDriver;
  check_cuda(cudaMemPoolSetAttribute(pool_of(index_), cudaMemPoolAttrReleaseThreshold, &kept), "a card's memory");
}

void CardMemory::enter() {
  select(index_);
  const auto outside = Recording::outside();  // until what another thread records is done
}

std::size_t CardMemory::available() const {
  check_cuda(cudaSetDevice(index_), "a card");
  std::size_t free = 0, all = 0;
  check_cuda(cudaMemGetInfo(&free, &all), "a card's memory");
  const cudaMemPool_t pool = pool_of(index_);
  return free + attribute_of(pool, cudaMemPoolAttrReservedMemCurrent) -
         attribute_of(pool, cudaMemPoolAttrUsedMemCurrent);
}

void* CardMemory::map(std::size_t bytes) {
  select(index_);
  const auto outside = Recording::outside();
  void* data = nullptr;
  const cudaError_t status =
      Recording::current() != nullptr ? allocate_beside(&data, bytes) : cudaMallocAsync(&data, bytes, stream_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the caller says so
    return nullptr;
  }
  check_cuda(status, "a card's memory");
  return data;
}

void CardMemory::unmap(void* data, std::size_t) {
  if (Recording* const recording = Recording::current())
    return recording->keep(std::make_shared<const LentBlock>(data, stream_));
  const auto outside = Recording::outside();
  cudaSetDevice(index_);
  // Nothing to be done where a program ends before its tensors.
  if (owns_stream_) {
    cudaFreeAsync(data, stream_);
  } else {
    cudaDeviceSynchronize();  // cudaFree() waits for nothing where the memory is a pool's
    cudaFree(data);
  }
}

void CardMemory::fill(void* to, unsigned char value, std::size_t bytes) {
  select(index_);
  const auto outside = Recording::outside();
  check_cuda(cudaMemsetAsync(to, value, bytes, stream_), "filling a card's memory");
}

void CardMemory::write(void* to, const void* host, std::size_t bytes) {
  ++writes_;
  select(index_);
  if (bytes == 0) return;
  if (Recording* const recording = Recording::current(); recording != nullptr)
    return note_write(*recording, to, {static_cast<const std::byte*>(host), bytes}, stream_);
  const auto outside = Recording::outside();
  staging_.write(to, host, bytes, stream_);
}

void CardMemory::read(void* host, const void* from, std::size_t bytes) {
  ++reads_;
  if (bytes > 0) fetch(host, from, bytes);
}

void CardMemory::fetch(void* host, const void* from, std::size_t bytes) {
  Recording::refuse("the host waits for a number");
  select(index_);
  const auto outside = Recording::outside();
  staging_.read(host, from, bytes, stream_);
}

void CardMemory::precede(cudaStream_t other) const {
  if (other == stream_) return;
  cudaEvent_t reached = nullptr;
  check_cuda(cudaEventCreateWithFlags(&reached, cudaEventDisableTiming), "the order of two streams");
  check_cuda(cudaEventRecord(reached, stream_), "the order of two streams");
  check_cuda(cudaStreamWaitEvent(other, reached), "the order of two streams");
  check_cuda(cudaEventDestroy(reached), "the order of two streams");
}

}  // namespace fovea::device

namespace fovea {

template <>
std::shared_ptr<Memory> kernels::make_memory<Device::cuda>(int index) {
  return std::make_shared<device::CardMemory>(device::CardMemory::Place{index});
}

}  // namespace fovea
