#include "cli/kit/waiting.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace fovea::cli {
namespace {

// Turns before a waiting thread sleeps: some 0.1 ms, more than the gaps between the parallel parts of a step. OpenMP's
// 300,000 are 10 ms: beside other busy processes they are taken from the very threads that are waited for.
constexpr const char* kTurns = "3000";

}  // namespace

void bound_waiting(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::array<char, 4096> program{};
  const ssize_t length = ::readlink("/proc/self/exe", program.data(), program.size() - 1);
  if (length <= 0 || ::setenv("GOMP_SPINCOUNT", kTurns, 1) != 0) return;
  ::execv(program.data(), argv);  // comes back only where it cannot be done: then all is as it was
}

}  // namespace fovea::cli
