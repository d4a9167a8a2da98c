#pragma once

#include <cstddef>

#include "fovea/context.h"

namespace fovea {

// The most memory a piece of work used beyond what was there before: from construction to extra_bytes(). Blocks the
// allocator had cached are given back first, so that their reuse counts too. Takes the larger of what the allocator
// counted and what the system saw of the process; what the allocator counted alone where the system does not tell.
class PeakMemory {
 public:
  explicit PeakMemory(const Context& context);
  std::size_t extra_bytes() const;

 private:
  const Context& context_;
  std::size_t allocated_ = 0, resident_ = 0;
  bool system_tells_ = false;
};

// The most memory the process has held so far, as the system counts it; 0 where it does not.
std::size_t peak_resident_bytes();

}  // namespace fovea
