#pragma once

#include <atomic>

namespace fovea::cli {

// While it lives, Ctrl-C, a polite kill, a terminal that closes and a pipe that nobody reads set a flag that a training
// run looks at after every step, so that it can save; a second Ctrl-C ends the process at once with exit code 130.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>& requested() const;
};

}  // namespace fovea::cli
