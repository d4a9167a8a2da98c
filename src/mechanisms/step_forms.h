#pragma once

#include "mechanisms/kind.h"

// The parts of step forms that keep keys and values.
namespace fovea {

// Adds the new rows of k and v to the caches, and counts them.
void extend_caches(const StepCall& step);
// Forgets what no later query reads.
void trim_caches(const StepCall& step);

// Softmax of one query of each sequence over all that it has cached, or its window: every sequence at once, and keys
// and values read once. May it take this step?
bool is_plain_query(const StepCall& step);
Tensor attend_caches(const StepCall& step);

}  // namespace fovea
