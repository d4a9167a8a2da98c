#pragma once

#include <cstddef>
#include <cstdint>

#include "fovea/memory.h"

namespace fovea::tile {

// A block of scratch memory, counted by the allocator and returned to it.
class Scratch {
 public:
  Scratch(Allocator& allocator, std::size_t bytes)
      : allocator_(&allocator), block_(allocator.allocate(bytes, Lifetime::scratch)) {}
  ~Scratch() { allocator_->release(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(block_.data); }

 private:
  Allocator* allocator_;
  Allocator::Block block_;
};

// Cuts a block into arrays that start on cache lines. Without a block it only counts: one function then serves to size
// a layout and to place it.
class Carver {
 public:
  explicit Carver(void* base = nullptr) : base_(static_cast<std::byte*>(base)) {}

  template <class T>
  T* take(std::int64_t count) {
    T* out = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + kLine - 1) / kLine * kLine;
    return out;
  }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::size_t kLine = 64;
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace fovea::tile
