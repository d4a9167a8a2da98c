#include "cli/start.h"

// The program of a wheel, in the module, with which it shares the engine; launcher.cc calls it.
extern "C" [[gnu::visibility("default")]] int fovea_program(int argc, char** argv) {
  fovea::dist::Alone alone;
  return fovea::cli::start(argc, argv, alone);
}
