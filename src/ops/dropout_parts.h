#pragma once

#include <vector>

#include "fovea/autograd.h"

namespace fovea {

// Elements [begin, end) of a tensor that are those from `first` on of a larger one.
struct DropoutPart {
  std::int64_t begin, end, first;
};

// dropout() of a tensor that has parts of a larger one: it drops what dropout() of the whole would drop there.
Var dropout_parts(Tape& tape, const Var& x, double p, std::vector<DropoutPart> parts);

}  // namespace fovea
