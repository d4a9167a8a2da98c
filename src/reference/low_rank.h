#pragma once

#include "reference/attention.h"

// Definitions of mechanisms that replace keys, or the whole matrix of weights, by a few.
namespace fovea::reference {

// weights[0]: E, (slots, most) or (kv_heads, slots, most); weights[1]: F, or none where E serves both.
struct Linformer {
  std::int64_t slots = 0;
  bool each_head = false;
};
Result linformer(const Problem& problem, const Linformer& options);

// weights[0], where taps > 0: (heads, taps), a convolution of the values along the sequence.
struct Nystrom {
  std::int64_t landmarks = 0, steps = 6, taps = 0;
};
Result nystrom(const Problem& problem, const Nystrom& options);

// exp(-scale |q_i - k_j|^2 / 2), no normaliser.
Result gaussian(const Problem& given);

// weights[0]: (landmarks), where each landmark is drawn from; the first half are queries, the others keys.
struct Skyformer {
  double gamma = 0.0;
  std::int64_t steps = 6;
};
Result skyformer(const Problem& problem, const Skyformer& options);

// weights[0], where slots > 0: (width, heads slots). Slots are made of normalised keys and values, or, causal, of keys
// and values as they come; slots are normalised in both.
struct LongShort {
  std::int64_t slots = 0, window = 0, chunk = 0;
};
Result long_short(const Problem& problem, const LongShort& options);

// weights, where learned: weight (d, d), bias, gain, shift (d) for the queries, then for the keys.
enum class Proposals : std::uint8_t { optimal, balance, biased };
struct Lara {
  std::int64_t landmarks = 0;
  Proposals proposals = Proposals::optimal;
  double beta = 1.0;
  bool learned = true;
};
Result lara(const Problem& problem, const Lara& options);

}  // namespace fovea::reference
