#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "core/guard.h"
#include "fovea/context.h"

namespace fovea {

// Memory that one operation needs while it runs: 64-byte aligned, uninitialised, given back at the end of the scope.
template <class T>
class Scratch {
 public:
  Scratch(const Context& context, std::size_t count, guard::Place where = guard::Place::current())
      : allocator_(*context.allocator()),
        count_(count),
        block_(allocator_.allocate(count * sizeof(T), Lifetime::scratch)) {
    guard::place(block_.data, count * sizeof(T), block_.bytes + guard::gap(), where);
  }
  ~Scratch() { allocator_.release(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(block_.data); }
  std::span<T> all() const { return {data(), count_}; }
  // Part i of several, `size` elements each.
  std::span<T> part(std::size_t i, std::size_t size) const { return all().subspan(i * size, size); }

 private:
  Allocator& allocator_;
  std::size_t count_;
  Allocator::Block block_;
};

using Room = std::span<std::byte>;

// Cuts a room into arrays that start on cache lines, a guard behind each. Without a room it only counts: one function
// then serves to size a layout and to place it.
class Carver {
 public:
  explicit Carver(Room room = {}) : room_(room) {}

  template <class T>
  T* take(std::integral auto count, guard::Place where = guard::Place::current()) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const std::size_t begin = used_, whole = (bytes + kLine - 1) / kLine * kLine + guard::gap();
    used_ += whole;
    if (room_.data() == nullptr) return nullptr;
    if (used_ > room_.size()) guard::report("an array does not fit into its scratch", bytes, where);
    if (guard::on) guard::place(room_.data() + begin, bytes, whole, where);
    return reinterpret_cast<T*>(room_.data() + begin);
  }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::size_t kLine = 64;
  Room room_;
  std::size_t used_ = 0;
};

}  // namespace fovea
