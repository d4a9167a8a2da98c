#pragma once

namespace fovea::cli {

// Bounds how long threads that wait for work keep their core, unless the environment says it. OpenMP reads that when
// the program is loaded, so the program starts itself again, once, with the setting in its environment.
void bound_waiting(char** argv);

}  // namespace fovea::cli
