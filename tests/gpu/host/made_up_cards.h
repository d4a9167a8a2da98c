#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

// A CUDA runtime for machines that have none: cards that are made up, whose memory is the host's and on which kernels
// are launched and do not run. It says what a driver says of launches that cannot be, and remembers all others.
namespace fovea::testing {

struct MadeUpCard {
  const char* name;
  int major, minor;
  std::size_t shared;  // bytes that a block may have
};

// Where they stand in the list.
inline constexpr int kHopper = 0, kAmpere = 1, kAda = 2, kBlackwell = 3, kTooOld = 4;

struct KernelLaunch {
  std::string kernel;
  dim3 grid, block;
  std::size_t shared = 0;
};

// The machine that tests see. One for the program: the functions of the runtime know no other.
struct Machine {
  int driver = 13000;
  cudaError_t status = cudaSuccess;  // what it says when it is asked for its cards
  std::vector<MadeUpCard> cards{{"H200", 9, 0, 227 << 10},
                                {"A100", 8, 0, 163 << 10},
                                {"L40", 8, 9, 99 << 10},
                                {"B200", 10, 0, 227 << 10},
                                {"V100", 7, 0, 96 << 10}};
  int current = 0;
  std::size_t free = std::size_t{1} << 30;  // bytes
  cudaError_t lost = cudaSuccess;           // what every call says from now on
  std::vector<KernelLaunch> launches;
  bool captures = false;
  int waits = 0;                             // for all that the current card was given
  std::vector<std::string> on_gone_streams;  // calls with a stream that was destroyed; a driver may crash

  static Machine& instance();
  // As it was when the program started, but for what its memory holds.
  void reset();
  std::vector<std::string> kernels() const;  // launched since, by name
};

}  // namespace fovea::testing
