#pragma once

#include <set>
#include <string>

#include "gpu/host/made_up_cards.h"

namespace fovea::testing {

// "simt_kernel" of "void fovea::tile::cuda::simt_kernel<float, ...>(...)".
inline std::string short_name(const std::string& kernel) {
  const std::string whole = kernel.substr(0, kernel.find_first_of("<("));
  return whole.substr(whole.rfind(':') + 1);
}

// The kernels that a call launches on one of the cards. The call throws what it throws.
template <class F>
std::set<std::string> launched(int card, const F& call) {
  Machine& machine = Machine::instance();
  machine.current = card;
  machine.launches.clear();
  call();
  std::set<std::string> names;
  for (const std::string& kernel : machine.kernels()) names.insert(short_name(kernel));
  return names;
}

}  // namespace fovea::testing
