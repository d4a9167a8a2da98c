#pragma once

#include "reference/attention.h"

// Attention with a memory, by its plain definition.
namespace fovea::reference {

// Segments of `segment` tokens that read themselves and the `memory` tokens before them. Weights: u, w (heads, d_k) and
// W_r (heads, d_k, waves): s_ij = (q_i + u) . k_j + (q_i + w) . W_r R_(i - j).
Result transformer_xl(const Problem& problem, std::int64_t segment, std::int64_t memory);

// Segments that read themselves, the tokens of the memory and older tokens, `rate` of them pooled to one, the newest
// `slots` of these. Weights of conv: (kv_heads, rate d_k, d_k) for keys, (kv_heads, rate d_v, d_v) for values.
struct Compression {
  std::int64_t segment, memory, rate, slots;
  enum class Pool : std::uint8_t { mean, max, conv } pool;
};
Result compressive(const Problem& problem, const Compression& how);

// Softmax attention and a read of learned slots. Weights: keys (slots, heads, d_k), values (slots, heads, d_v).
Result memformer(const Problem& problem, bool joint);

}  // namespace fovea::reference
