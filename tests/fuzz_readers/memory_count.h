#pragma once

#include <cstddef>

// What the process takes from the heap, libraries included.
namespace fovea::fuzz {

void start_counting();
std::size_t most_taken();  // bytes held at once, above what was held at the start

}  // namespace fovea::fuzz
