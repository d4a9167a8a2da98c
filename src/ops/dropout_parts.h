#pragma once

#include <vector>

#include "fovea/autograd.h"

namespace fovea {

// Elements [begin, end) of a tensor that are those from `first` on of a larger one; or, with `columns`, rows of so many
// of them, which there begin every `stride` elements.
struct DropoutPart {
  std::int64_t begin, end, first, columns = 0, stride = 0;
};

// dropout() of a tensor that has parts of a larger one: it drops what dropout() of the whole would drop there.
Var dropout_parts(Tape& tape, const Var& x, double p, std::vector<DropoutPart> parts);

}  // namespace fovea
