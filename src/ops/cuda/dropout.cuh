#pragma once

#include "ops/dropout.h"
#include "policy/philox.h"

namespace fovea::device {

// The factors of a dropout on the card: 0, or the scale of the survivors; 1 where it is not active. Eight elements from
// a multiple of 8 share a call of Philox.
template <class R>
struct KeepFactors {
  std::uint64_t seed, stream;
  const std::uint64_t* shift;
  std::uint16_t threshold;
  R scale;

  explicit KeepFactors(const Keep& keep)
      : seed(keep.seed),
        stream(keep.stream),
        shift(keep.shift),
        threshold(keep.threshold),
        scale(static_cast<R>(keep.scale())) {}

  __device__ Philox of_eight(std::int64_t i) const {
    return threshold == 0 ? Philox{} : philox(seed, static_cast<std::uint64_t>(i) / 8, shifted(stream, shift));
  }
  __device__ R factor(const Philox& of_eight, int in_eight) const {
    const std::uint32_t half = of_eight.word[in_eight / 2] >> (16 * (in_eight % 2)) & 0xffffu;
    return half >= threshold ? scale : R(0);
  }
  __device__ R operator[](std::int64_t i) const { return factor(of_eight(i), static_cast<int>(i % 8)); }
};

}  // namespace fovea::device
