#include "cli/kit/waiting.h"
#include "cli/start.h"
#include "dist/mpi/mpi_ranks.h"

// The same program for ranks that mpirun or srun start.
int main(int argc, char** argv) {
  fovea::cli::bound_waiting(argv);
  fovea::dist::MpiRanks ranks(&argc, &argv);
  return fovea::cli::start(argc, argv, ranks);
}
