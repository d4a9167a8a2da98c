#include <csignal>

#include "cli/kit/waiting.h"
#include "cli/start.h"

int main(int argc, char** argv) {
  // A parent that ignores it hands that on, as Python does: `fovea list | head` would end in an error.
  std::signal(SIGPIPE, SIG_DFL);
  fovea::cli::bound_waiting(argv);
  fovea::dist::Alone alone;
  return fovea::cli::start(argc, argv, alone);
}
