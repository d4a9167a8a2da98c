#pragma once

#include <cstdint>

#include "fuzz/spec.h"

namespace fovea::fuzz {

struct Settings {
  Draw draw;
  std::uint64_t cases = 20'000;
  double minutes = 0.0;  // 0: until all cases are done
  int jobs = 1;
  bool quiet = false;  // no progress
  bool shrink = true;
};

// Runs the cases in processes of their own and prints what failed, then a table. True: nothing did.
bool run_pool(const Settings& settings);

}  // namespace fovea::fuzz
