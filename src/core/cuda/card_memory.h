#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <mutex>

#include "core/cuda/launch.h"
#include "fovea/context.h"

namespace fovea::device {

// Host memory that the card copies from and to by itself, cut into parts that are in flight one after the other.
class Staging {
 public:
  static constexpr std::size_t kPart = std::size_t{4} << 20;

  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void write(void* to, const void* host, std::size_t bytes, cudaStream_t stream);
  void read(void* host, const void* from, std::size_t bytes, cudaStream_t stream);  // waits for the stream

 private:
  struct Part {
    std::byte* data = nullptr;
    cudaEvent_t done = nullptr;  // the copy that used it last
  };
  const Part& take();  // waits for the copy that has it

  std::mutex mutex_;
  std::array<Part, 4> parts_{};
  std::size_t next_ = 0;
};

// The memory of a card, and the stream in whose order everything happens to it: kernels, copies, and the reuse of
// blocks. All memories of a card share one stream unless they are given another's. That one need not live as long as
// the memory: only what is asked of the memory uses it, and giving blocks back to the driver does not.
class CardMemory : public Memory {
 public:
  struct Place {
    int index = 0;
    cudaStream_t stream = nullptr;  // somebody else's; null: the card's
  };
  explicit CardMemory(const Place& place);

  int index() const { return index_; }
  cudaStream_t stream() const { return stream_; }

  std::size_t size() const override { return size_; }
  std::size_t available() const override;
  void* map(std::size_t bytes) override;
  void unmap(void* data, std::size_t bytes) override;
  void fill(void* to, unsigned char value, std::size_t bytes) override;
  void write(void* to, const void* host, std::size_t bytes) override;
  void read(void* host, const void* from, std::size_t bytes) override;
  void enter() override;

  // Transfers so far. An answer of a kernel counts as a read (core/visit_device.h).
  int reads() const { return reads_; }
  int writes() const { return writes_; }
  void reset_counts() { reads_ = writes_ = 0; }

  // A read that is not counted: part of a kernel whose answer is.
  void fetch(void* host, const void* from, std::size_t bytes);
  // What is enqueued on another stream waits for all that is on this one.
  void precede(cudaStream_t other) const;

 private:
  int index_;
  cudaStream_t stream_;
  bool owns_stream_;  // it lives as long as the program
  std::size_t size_ = 0;
  Staging staging_;
  std::atomic<int> reads_{0}, writes_{0};
};

inline CardMemory& card_memory(Memory& memory) { return static_cast<CardMemory&>(memory); }
inline cudaStream_t stream_of(const Context& context) { return card_memory(*context.memory()).stream(); }

// Where kernels are enqueued: a context says it, and so does a memory.
struct Queue {
  Queue(const Context& context) : stream(stream_of(context)) {}  // NOLINT(google-explicit-constructor)
  explicit Queue(Memory& memory) : stream(card_memory(memory).stream()) {}
  cudaStream_t stream;
};

// For the engines: the context's stream and allocator.
inline Launch launch_of(const Context& context) { return {stream_of(context), context.allocator().get()}; }

}  // namespace fovea::device
