#pragma once

#include <cstddef>

#include "fovea/context.h"

namespace fovea {

// Memory that one operation needs while it runs: 64-byte aligned, uninitialised, given back at the end of the scope.
template <class T>
class Scratch {
 public:
  Scratch(const Context& context, std::size_t count)
      : allocator_(*context.allocator()), block_(allocator_.allocate(count * sizeof(T), Lifetime::scratch)) {}
  ~Scratch() { allocator_.release(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(block_.data); }

 private:
  Allocator& allocator_;
  Allocator::Block block_;
};

}  // namespace fovea
