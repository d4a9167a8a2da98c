#pragma once

#include "core/recording.h"
#include "fovea/autograd.h"

namespace fovea {

// The next stream of a tape for numbers that are drawn on the host, or by a kernel that is told the stream itself: a
// step that has them cannot be recorded.
inline std::uint64_t next_host_stream(Tape& tape) {
  Recording::refuse("random numbers are drawn on the host");
  return tape.next_stream();
}

}  // namespace fovea
