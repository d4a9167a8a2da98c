#pragma once

#include <cstdint>

#include "policy/philox.h"

namespace fovea {

// Dropout of attention weights, a function of position: the same on every device, in every order, rebuilt in backward.
//
// The pair (query row i, key row j) of (batch b, head h) is decided by word j % 4 of
//   philox(seed + stream * kGolden, i | (j / 4) << 32, b << 32 | h)
// where i and j are global rows of q and k (below 2^32), h is the query head, and the pair is kept when the word is at
// least drop_threshold(p). Four neighbouring keys share one call.
struct PairDropout {
  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;  // odd: no two streams of a seed share a key

  std::uint64_t key = 0;
  std::uint64_t high = 0;
  std::uint32_t threshold = 0;

  FOVEA_HD static PairDropout of(float p, std::uint64_t seed, std::uint64_t stream) {
    return {seed + stream * kGolden, 0, drop_threshold(p)};
  }
  // That of as many streams later; null: of this one.
  FOVEA_HD PairDropout shifted_by(const std::uint64_t* streams) const {
    return {streams == nullptr ? key : key + *streams * kGolden, high, threshold};
  }
  FOVEA_HD PairDropout at(std::int64_t batch, std::int64_t head) const {
    return {key, static_cast<std::uint64_t>(batch) << 32 | static_cast<std::uint64_t>(head), threshold};
  }
  // Of the keys 4 quad .. 4 quad + 3.
  FOVEA_HD static std::uint64_t counter(std::uint32_t query, std::uint32_t quad) {
    return static_cast<std::uint64_t>(quad) << 32 | query;
  }
  FOVEA_HD Philox words(std::uint32_t query, std::uint32_t quad) const {
    return philox(key, counter(query, quad), high);
  }
  FOVEA_HD bool keep(std::int64_t query, std::int64_t key_row) const {
    return words(static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(key_row / 4)).word[key_row % 4] >=
           threshold;
  }
  // What kept weights are multiplied by.
  FOVEA_HD static double scale(float p) { return 1.0 / (1.0 - static_cast<double>(p)); }
};

}  // namespace fovea
