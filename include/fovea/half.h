#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace fovea {

// bfloat16: the upper half of a float. Rounds to nearest even; branch-free so that loops over it vectorise.
struct bf16 {
  std::uint16_t bits;  // uninitialised by default, like a float

  bf16() = default;
  explicit bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u : rounded);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// IEEE half precision.
struct f16 {
  std::uint16_t bits;  // uninitialised by default, like a float

  f16() = default;
  explicit f16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) {  // infinity or NaN
      bits = static_cast<std::uint16_t>(sign | 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u));
    } else if (magnitude < 0x38800000u) {  // subnormal: let the float adder do the rounding
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    } else {
      const std::uint32_t rounded = magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u);
      const std::uint32_t half = rounded >> 13;
      bits = static_cast<std::uint16_t>(sign | (half > 0x7c00u ? 0x7c00u : half));
    }
  }
  operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;  // exact, also for subnormals
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }
};

}  // namespace fovea
