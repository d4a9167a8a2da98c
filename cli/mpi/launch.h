#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fovea::cli {

// What --ranks and --restarts ask for: this program on several ranks of this machine, and again after a fault.
struct Launch {
  int ranks = 1, restarts = 0;
  std::vector<std::string> arguments;  // without those two

  // None where it is not asked for, or this process was launched already.
  static std::optional<Launch> of(int argc, const char* const* argv);
};

// Starts mpirun and waits for it. A run of which a rank was lost goes on from its last checkpoint, as often as asked
// for; on half as many ranks where it got no further than before. Gives the exit code.
int run(const Launch& launch);

}  // namespace fovea::cli
