#pragma once

#include <cstdint>

#include "policy/hd.h"

namespace fovea {

// Philox 4x32-10: a random function, not a generator. The same (key, counter) gives the same four words on every
// device and in every order, so dropout is rebuilt in backward instead of stored.
struct Philox {
  std::uint32_t word[4];
};
inline constexpr int kPhiloxRounds = 10;
inline constexpr std::uint32_t kPhiloxFactor0 = 0xD2511F53u, kPhiloxFactor1 = 0xCD9E8D57u;
inline constexpr std::uint32_t kPhiloxStep0 = 0x9E3779B9u, kPhiloxStep1 = 0xBB67AE85u;  // of the keys, every round

// Key words before a round.
struct PhiloxKey {
  std::uint32_t k0, k1;
  FOVEA_HD PhiloxKey next() const { return {k0 + kPhiloxStep0, k1 + kPhiloxStep1}; }
};

FOVEA_HD inline Philox philox_round(const Philox& c, PhiloxKey key) {
  const std::uint64_t p0 = std::uint64_t{kPhiloxFactor0} * c.word[0];
  const std::uint64_t p1 = std::uint64_t{kPhiloxFactor1} * c.word[2];
  return {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ key.k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ key.k1, static_cast<std::uint32_t>(p0)}};
}

FOVEA_HD inline Philox philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high = 0) {
  Philox c{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
            static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  PhiloxKey k{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  for (int round = 0; round < kPhiloxRounds; ++round, k = k.next()) c = philox_round(c, k);
  return c;
}

// Uniform in [0, 1) with 24 bits.
FOVEA_HD inline float uniform01(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// A dropout of probability p keeps a value when its word is at least this.
FOVEA_HD inline std::uint32_t drop_threshold(float p) {
  return static_cast<std::uint32_t>(static_cast<double>(p) * 4294967296.0);
}

}  // namespace fovea
