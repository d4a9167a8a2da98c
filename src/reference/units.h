#pragma once

#include "reference/attention.h"

// Definitions of gated units, polynomial attention and state spaces.
namespace fovea::reference {

// weights: gain (pairs, d), shift (pairs, d): query, key (and the same for the linear half); then, where table > 0, the
// bias of a key that is j - i away, at j - i + table - 1.
struct FlashQuad {
  std::int64_t table = 0;
  double divisor = 0.0;  // of the scores; 0: the length
  bool scale_bias = false;
};
Result flash_quad(const Problem& problem, const FlashQuad& options);

struct FlashGau {
  std::int64_t chunk = 0;
  bool by_length = false;  // bidirectional: the linear half is divided by the length, else by the chunk
};
Result flash_gau(const Problem& problem, const FlashGau& options);

// weights: gain, shift (d), then, for the sketch, two (d, features) matrices.
struct PolySketch {
  bool sketch = true;
  bool unbiased = true;    // both matrices are divided by features^(1/4), else by features^(1/2)
  std::int64_t block = 0;  // causal: pairs of one block are exact
};
Result polysketch(const Problem& problem, const PolySketch& options);

// weights: log_dt (heads, d_v), decay, frequency (heads, d_v, states), c (2, heads, d_v, states, 2), skip (heads, d_v).
Result s4d(const Problem& problem, std::int64_t states);

}  // namespace fovea::reference
