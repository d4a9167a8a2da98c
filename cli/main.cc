#include "cli/kit/waiting.h"
#include "cli/start.h"

int main(int argc, char** argv) {
  fovea::cli::bound_waiting(argv);
  fovea::dist::Alone alone;
  return fovea::cli::start(argc, argv, alone);
}
