#pragma once

#include "gpu/emulated/card.h"

// src/core/cuda/ptx.cuh for the emulated card: what the instructions do, in loops.
namespace fovea::device {

using bfloat16 = __nv_bfloat16;
using float16 = __half;

// One half of a pair.
template <class T>
float half_of(std::uint32_t pair, int which) {
  const auto bits = static_cast<std::uint16_t>(which == 0 ? pair : pair >> 16);
  if constexpr (std::is_same_v<T, bfloat16>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  else
    return static_cast<float>(std::bit_cast<_Float16>(bits));
}
template <class T>
std::uint32_t bits_of(float x) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return x != x ? 0x7fffu : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  } else {
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
  }
}
// Element (row, k) of a first operand and (k, column) of a second, from the registers of all lanes.
template <class T>
float first_operand(const emulated::Words* lanes, int row, int k) {
  return half_of<T>(lanes[row % 8 * 4 + k % 8 / 2].word[row / 8 + 2 * (k / 8)], k % 2);
}

template <class T>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const emulated::Words* all = emulated::exchange({{a[0], a[1], a[2], a[3], b0, b1}});
  const int lane = static_cast<int>(emulated_lane());
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (int k = 0; k < 16; ++k)
      c[e] += first_operand<T>(all, row, k) * half_of<T>(all[column * 4 + k % 8 / 2].word[4 + k / 8], k % 2);
  }
}

template <class T>
std::uint32_t pack(float low, float high) {
  return bits_of<T>(low) | bits_of<T>(high) << 16;
}

inline float quick_exp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}

template <class T>
bool is_strange(std::uint32_t pair) {
  return !std::isfinite(half_of<T>(pair, 0)) || !std::isfinite(half_of<T>(pair, 1));
}

// Four 8 x 8 matrices whose rows begin at the addresses of eight lanes each.
inline void load_rows(std::uint32_t (&r)[4], std::uint32_t address, bool turned) {
  const emulated::Words* all = emulated::exchange({{address}});
  const int row = static_cast<int>(emulated_lane()) / 4, pair = static_cast<int>(emulated_lane()) % 4 * 2;
  for (int m = 0; m < 4; ++m) {
    const auto element = [&](int i, int j) {
      std::uint16_t x = 0;
      std::memcpy(&x, emulated::shared_at(all[8 * m + i].word[0], 16) + 2 * j, 2);
      return static_cast<std::uint32_t>(x);
    };
    r[m] =
        turned ? element(pair, row) | element(pair + 1, row) << 16 : element(row, pair) | element(row, pair + 1) << 16;
  }
}
inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) { load_rows(r, address, false); }
inline void load_transposed(std::uint32_t (&r)[4], std::uint32_t address) { load_rows(r, address, true); }

inline std::uint32_t transpose(std::uint32_t pair) {
  const emulated::Words* all = emulated::exchange({{pair}});
  const int row = static_cast<int>(emulated_lane()) / 4, first = static_cast<int>(emulated_lane()) % 4 * 2;
  const auto element = [&](int i, int j) { return all[i * 4 + j / 2].word[0] >> (j % 2 * 16) & 0xffffu; };
  return element(first, row) | element(first + 1, row) << 16;
}

inline void load_shared(std::uint32_t (&r)[4], std::uint32_t at) { std::memcpy(r, emulated::shared_at(at, 16), 16); }
inline void store_shared(const std::uint32_t (&r)[4], std::uint32_t at) {
  std::memcpy(emulated::shared_at(at, 16), r, 16);
}
inline std::uint32_t load_shared(std::uint32_t at) {
  std::uint32_t r = 0;
  std::memcpy(&r, emulated::shared_at(at, 4), 4);
  return r;
}
inline void store_shared(std::uint32_t r, std::uint32_t at) { std::memcpy(emulated::shared_at(at, 4), &r, 4); }
inline std::uint32_t load_shared_half(std::uint32_t at) {
  std::uint16_t r = 0;
  std::memcpy(&r, emulated::shared_at(at, 2), 2);
  return r;
}
inline void store_shared_half(std::uint32_t pair, std::uint32_t at) {
  std::memcpy(emulated::shared_at(at, 2), &pair, 2);
}

inline void copy16(std::uint32_t to, const void* from, bool exists) { emulated::begin_copy({to, from, 16, exists}); }
inline void copy8(std::uint32_t to, const void* from, bool exists) { emulated::begin_copy({to, from, 8, exists}); }
inline void copy4(std::uint32_t to, const void* from, bool exists) { emulated::begin_copy({to, from, 4, exists}); }
inline void commit_copies() { emulated::commit_copies(); }
template <int kOpen>
void await_copies() {
  emulated::await_copies(kOpen);
}

inline void keep_until_here(float&) {}

}  // namespace fovea::device
