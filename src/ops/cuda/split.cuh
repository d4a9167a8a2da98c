#pragma once

#include <cstdint>

namespace fovea::device {

struct Split {
  std::int64_t whole, rest;
};
// i / by and i % by for i >= 0, by > 0; in 32 bits where they fit, at a fifth of the instructions.
__device__ inline Split split(std::int64_t i, std::int64_t by) {
  if (((i | by) >> 32) == 0) {
    const auto a = static_cast<std::uint32_t>(i), b = static_cast<std::uint32_t>(by);
    return {a / b, a % b};
  }
  return {i / by, i % by};
}

}  // namespace fovea::device
