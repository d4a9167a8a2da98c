#pragma once

#include "fovea/tensor.h"

namespace fovea {

// o (b, n, heads, d) and lse (b, n, heads) over some of the keys. Rows of o where lse is -inf are not read in a part.
struct Joined {
  Tensor o, lse;
};

// Joins a part over other keys to `to`, in place.
void merge_into(const Context& context, const Joined& to, const Joined& part);

}  // namespace fovea
