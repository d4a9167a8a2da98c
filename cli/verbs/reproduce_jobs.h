#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::cli {

// Runs this program several times at once with the same words after its name, and waits for all of them. An
// interruption reaches each of them by itself. Gives the largest of their exit codes.
int run_jobs(std::int64_t jobs, const std::vector<std::string>& words);

}  // namespace fovea::cli
