#pragma once

#include <cstdint>

#include "policy/hd.h"

namespace fovea {

// A recorded step draws new numbers each time it plays: it adds this to its random streams, where kernels find it on
// the device (core/recording.h). Null while nothing is being recorded.
const std::uint64_t* stream_shift();

FOVEA_HD inline std::uint64_t shifted(std::uint64_t stream, const std::uint64_t* shift) {
  return shift == nullptr ? stream : stream + *shift;
}

}  // namespace fovea
