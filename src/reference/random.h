#pragma once

#include <array>
#include <cmath>
#include <cstdint>

// Random numbers of the definitions, written from the papers: they share nothing with those of the engines but what
// both are defined to be.
namespace fovea::reference {

using Words = std::array<std::uint32_t, 4>;

// Philox 4x32 with 10 rounds (Salmon et al. 2011).
inline Words philox(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  const auto half = [](std::uint64_t x, int shift) { return static_cast<std::uint32_t>(x >> shift); };
  Words x{half(low, 0), half(low, 32), half(high, 0), half(high, 32)};
  std::uint32_t k0 = half(key, 0), k1 = half(key, 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{x[0]} * 0xD2511F53, b = std::uint64_t{x[2]} * 0xCD9E8D57;
    x = {half(b, 32) ^ x[1] ^ k0, half(b, 0), half(a, 32) ^ x[3] ^ k1, half(a, 0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

// Word after word of philox(seed, 0, stream), philox(seed, 1, stream), ...
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // Uniform below bound: words of the last, incomplete round of remainders are passed over.
  std::int64_t below(std::int64_t bound) {
    const std::int64_t whole = 0xffffffff / bound * bound;
    for (;;) {
      const std::int64_t word = philox(seed_, used_ / 4, stream_)[used_ % 4];
      ++used_;
      if (word < whole) return word % bound;
    }
  }

 private:
  std::uint64_t seed_, stream_, used_ = 0;
};

// The pair of a query and a key row in an item and head, that a dropout of probability p (rounded to float) meets.
struct DroppedPair {
  std::int64_t batch, head, query, key;
};
// 0, or 1 / (1 - p) where the pair is kept: four neighbouring keys share the words of one counter.
inline double dropout_factor(double p, std::uint64_t seed, std::uint64_t stream, const DroppedPair& at) {
  const double rate = static_cast<float>(p);
  const auto wide = [](std::int64_t high, std::int64_t low) {
    return static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint64_t>(low);
  };
  const Words words = philox(seed + stream * 0x9E3779B97F4A7C15, wide(at.key / 4, at.query), wide(at.batch, at.head));
  const std::uint32_t word = words[static_cast<std::size_t>(at.key % 4)];
  return word < static_cast<std::uint32_t>(std::ldexp(rate, 32)) ? 0.0 : 1.0 / (1.0 - rate);
}

}  // namespace fovea::reference
