#include "dist/launch.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/cores.h"

namespace fovea::dist {
namespace {

// The first of these variables that is set to a number; `none` where there is no such.
int number_from(std::initializer_list<const char*> names, int none) {
  for (const char* name : names) {
    const char* const text = std::getenv(name);
    int number = 0;
    if (text != nullptr && std::from_chars(text, text + std::strlen(text), number).ec == std::errc()) return number;
  }
  return none;
}

}  // namespace

// Those of Open MPI, MPICH and its kin, and of srun with PMI. Plain SLURM_NTASKS is also there where nothing was
// launched.
int launched_processes() { return number_from({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1); }
int launched_rank() { return number_from({"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0); }

int launched_threads() {
  const int beside = number_from({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1);
  if (beside <= 1 || std::getenv("OMP_NUM_THREADS") != nullptr) return 0;
  const int usable = usable_cores(), there = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t allowed;
  const bool kept = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) < there;
  return kept ? 0 : std::max(1, usable / beside);
}

int Alone::end_with(const Error& error, const std::function<void(const Error&)>& say) {
  if (launched_rank() == 0) say(error);
  return exit_code(error.code());
}

}  // namespace fovea::dist
