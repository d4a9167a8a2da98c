#pragma once

#include "mechanisms/static_sparse/sparse.h"

// Of mechanisms that are nothing but their parts: what they run, and how much work it is.
namespace fovea {

template <PartsOf parts>
AttentionResult run_set(const Call& call) {
  return run_parts(call, parts);
}

template <PartsOf parts>
Flops set_flops(const Sizes& sizes, const Mechanism& mechanism) {
  return parts_flops(sizes, mechanism, parts);
}

}  // namespace fovea
