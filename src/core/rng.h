#pragma once

#include <cstdint>

#include "policy/philox.h"

namespace fovea {

// A sequence of draws for code that wants one (initialisation, data); copyable, resumable from its counter.
class Random {
 public:
  FOVEA_HD explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  FOVEA_HD std::uint32_t bits() {
    if (used_ == 4) {
      block_ = philox(seed_, counter_++, stream_);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  FOVEA_HD float uniform() { return uniform01(bits()); }
  FOVEA_HD double uniform_double() {
    const std::uint64_t high = bits();
    return static_cast<double>((high << 21) ^ (bits() >> 11)) * 0x1p-53;
  }
  // Uniform in [0, bound), without modulo bias.
  FOVEA_HD std::uint32_t below(std::uint32_t bound) {
    const std::uint32_t limit = bound * (0xffffffffu / bound);
    std::uint32_t draw = bits();
    while (draw >= limit) draw = bits();
    return draw % bound;
  }
  double normal();

 private:
  std::uint64_t seed_, stream_, counter_ = 0;
  Philox block_{};
  int used_ = 4;
};

}  // namespace fovea
