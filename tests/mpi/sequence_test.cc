#include <cstdio>

#include "dist/mpi/mpi_ranks.h"
#include "unit/parallel/as_one.h"

// Run by mpirun: a mechanism of each class whose sequences the ranks divide, beside one rank.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  fovea::dist::MpiRanks ranks(&argc, &argv);
  namespace as_one = fovea::divided::as_one;
  try {
    for (const as_one::Case& c : as_one::cases({"softmax", "diag:block=8", "window:left=6,right=3", "norm"}))
      as_one::check(ranks.all(), c);
    for (const as_one::Case& c : as_one::cases({"lightning", "gla"}, true)) as_one::check(ranks.all(), c);
    return ::testing::Test::HasFailure() ? 1 : 0;
  } catch (const fovea::Error& error) {
    return ranks.end_with(error, [](const fovea::Error& e) { std::fprintf(stderr, "error: %s\n", e.what()); });
  }
}
