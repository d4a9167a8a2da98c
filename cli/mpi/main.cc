#include "cli/kit/console.h"
#include "cli/kit/waiting.h"
#include "cli/mpi/launch.h"
#include "cli/start.h"
#include "dist/mpi/mpi_ranks.h"

// The same program for ranks that mpirun or srun start.
int main(int argc, char** argv) {
  fovea::cli::bound_waiting(argv);
  if (const auto launch = fovea::cli::Launch::of(argc, argv)) {
    try {
      return fovea::cli::run(*launch);
    } catch (const fovea::Error& error) {
      fovea::cli::print_error(error);
      return fovea::exit_code(error.code());
    }
  }
  fovea::dist::MpiRanks ranks(&argc, &argv);
  return fovea::cli::start(argc, argv, ranks);
}
