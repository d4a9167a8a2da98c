#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dist/mpi/mpi_ranks.h"
#include "unit/dist/laws.h"

// Run by mpirun on 2 to 4 ranks: the laws of groups, or a fault whose message and exit code tests/mpi/faults_test.py
// looks at.
namespace fovea::dist {
namespace {

// 300 MB: more than one message of MPI holds.
void long_messages(const Group& group) {
  const Context context({.threads = 1});
  const Tensor x = Tensor::zeros(context, {75'000'000}), y = Tensor::zeros(context, {75'000'000});
  x.slice(0, 74'999'000, 75'000'000).fill(1 + group.rank());
  const int p = group.size(), left = (group.rank() + p - 1) % p;
  group.shift(x, (group.rank() + 1) % p, y, left);
  EXPECT_EQ(y.slice(0, 74'999'999, 75'000'000).item(), 1.0 + left);
  EXPECT_EQ(y.slice(0, 74'998'999, 74'999'000).item(), 0.0);
}

void fault(const Group& group, const char* kind) {
  const bool last = group.rank() == group.size() - 1;
  group.barrier();
  if (std::strcmp(kind, "fails") == 0 && last) fail(ErrorCode::out_of_memory, "no room", "here", "less");
  if (std::strcmp(kind, "stalls") == 0 && last) std::this_thread::sleep_for(std::chrono::seconds(60));
  if (std::strcmp(kind, "all") == 0) fail(ErrorCode::usage, "wrong everywhere");
  if (std::strcmp(kind, "dies") == 0 && last) std::raise(SIGKILL);
  group.barrier();
}

int run(MpiRanks& ranks, int argc, char** argv) {
  ranks.set_limit(argc > 2 ? std::atof(argv[2]) : 60.0);
  if (argc > 1) {
    fault(ranks.all(), argv[1]);
    return 0;
  }
  laws::all(ranks.all());
  if (ranks.all().size() == 2) long_messages(ranks.all());
  return ::testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace fovea::dist

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  fovea::dist::MpiRanks ranks(&argc, &argv);
  try {
    return fovea::dist::run(ranks, argc, argv);
  } catch (const fovea::Error& error) {
    return ranks.end_with(error, [](const fovea::Error& e) { std::fprintf(stderr, "error: %s\n", e.what()); });
  }
}
