#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fovea {

// What a benchmark ran on, as far as the system tells. Unknown texts are empty, unknown numbers 0.
struct Machine {
  std::string cpu;                          // "AMD EPYC"
  std::vector<std::string> features;        // of the CPU, those that kernels here care about: "avx2", "fma", ...
  int cores = 0;                            // that this process may use
  double core_time = 0.0;                   // cores' worth of time that control groups leave it; 0: no limit
  std::string governor;                     // of the clock: "performance", "powersave"; empty where there is none
  std::size_t memory = 0, memory_free = 0;  // bytes; free: what a new process could get
  std::string huge_pages;                   // "always", "madvise" or "never"
  std::string system;                       // "Linux x86_64"

  // "AMD EPYC, 2 cores, avx512-bf16, 23 GB, Linux x86_64"
  std::string text() const;
};

Machine this_machine();

std::string build_text();        // "0.1.0 (138cb59 of 2026-11-18)": version and commit, where that is known
std::string onednn_version();    // "2.6.3"
std::string compiler_version();  // "GCC 12.2.0"
std::string today();             // "2026-11-15", in UTC

}  // namespace fovea
