#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/autograd.h"
#include "fovea/mechanism.h"
#include "fovea/ops.h"
#include "fovea/pattern.h"
#include "fovea/sequences.h"

namespace fovea {

struct Window {
  std::int64_t left = -1, right = -1;  // keys before and after the query; -1: unlimited
};

// Which position query i of n_q has among n_k keys.
enum class Align : std::uint8_t {
  bottom_right,  // i + n_k - n_q: the last query stands on the last key
  top_left,      // i: the first query stands on the first key; causal only
};
FOVEA_EXPORT std::string_view name_of(Align align);

// Which heads a call has, where others have more: numbers that go by the head are those of [first, ...) of `all`.
struct HeadShare {
  std::int64_t first = 0, all = 0;  // 0: these are all

  std::int64_t of(std::int64_t heads) const { return all > 0 ? all : heads; }
};

struct AttentionOptions {
  bool causal = false;  // no query reads a key behind its position
  Align align = Align::bottom_right;
  std::optional<double> scale = {};  // default 1 / sqrt(d_k), where the mechanism has one
  std::optional<Window> window = {};
  std::optional<Pattern> pattern = {};  // further restriction: kept pairs are kept by all of causal, window and pattern
  Var bias = {};     // added to the scaled scores, (b or 1, heads or 1, n_q or 1, n_k or 1), f32 (f64); has a gradient
  Tensor mask = {};  // u8, true = keep, broadcast like bias
  // Added in place of bias and mask: a number for every distance, (b or 1, heads or 1, 2 L - 1), f32 (f64); element key
  // position - query position + L - 1, L no less than any length. Has a gradient; takes no memory of n x n.
  Var diagonal_bias = {};
  bool alibi = false;
  std::optional<Rotary> rotary =
      {};                  // applied where the mechanism's definition wants it (after its feature map, if any)
  Tensor positions = {};   // i32 (b, n) for rotary; default: counted within each sequence
  double dropout_p = 0.0;  // on the weights, only while the tape is training
  Sequences queries = {}, keys = {};  // keys default to queries when n_q == n_k
  std::vector<Var> weights = {};      // what Mechanism::weights() lists, f32 (f64)
  Var input = {};  // (b, n_k, width): what the keys were projected from, for mechanisms that read it as well
  std::int64_t layer = 0, layers = 1;  // which of how many, for mechanisms that differ from layer to layer
  HeadShare heads = {};
  bool return_lse = false;
  Var initial_state = {};  // recurrent mechanisms; (sequences, kv_heads, d_k, width)
  bool final_state = false;
};

struct AttentionResult {
  Var output;       // (b, n_q, heads, d_v); rows of padding are zero
  Var lse;          // (b, n_q, heads), when asked for
  Var final_state;  // when asked for
};

// q (b, n_q, heads, d_k), k (b, n_k, kv_heads, d_k), v (b, n_k, kv_heads, d_v); any strides with a dense last axis.
FOVEA_EXPORT AttentionResult attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                                       const AttentionOptions& options = {});

// Relative positions in buckets, as T5 has them: near distances one by one, far ones in steps that grow up to
// max_distance. Bidirectional ones spend half of the buckets on keys after the query.
struct FOVEA_EXPORT Buckets {
  std::int64_t count = 32, max_distance = 128;
  bool bidirectional = true;

  void check() const;  // refuses numbers that leave no bucket for near or for far distances
};
FOVEA_EXPORT std::int32_t t5_bucket(std::int64_t offset, const Buckets& buckets);  // of key - query position
// table (buckets, heads) -> a diagonal_bias (1, heads, 2 length - 1).
FOVEA_EXPORT Var t5_bias(Tape& tape, const Var& table, std::int64_t length, const Buckets& buckets = {});

// The weights of a mechanism as a new layer would have them, drawn from the context's seed.
FOVEA_EXPORT std::vector<Var> make_weights(const Context& context, const Mechanism& mechanism, const LayerSizes& sizes,
                                           DType dtype, std::string_view name = "attention");

// What a causal mechanism remembers of one sequence between steps: cached keys and values, or a state of constant size.
// Copies share memory until one of them is moved on.
struct FOVEA_EXPORT DecodeState {
  Tensor keys = {}, values = {};  // (1, capacity, kv_heads, d), the first `held` rows filled
  std::shared_ptr<const Tensor> states =
      {};                   // recurrent mechanisms, (sequences, ...): of all that moved on together, and
  std::int64_t row = 0;     // which of them this one is
  std::int64_t length = 0;  // tokens seen
  std::int64_t held = 0;    // rows in the cache: those a later query may still read

  std::size_t bytes() const;  // that the sequence is remembered in
};

// The step form: every sequence goes on from a state of its own, and gets the same as the last rows of a causal
// attention over everything it has seen so far. options.queries divides the rows of q, k and v among the sequences, one
// for each state; lengths may differ. Without k and v nothing is added, and every query reads all that its sequence
// has cached: cross-attention, of any mechanism that has it. No gradients; a sequence gets the same in any company.
FOVEA_EXPORT Tensor attention_step(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Mechanism& mechanism, std::span<DecodeState* const> states,
                                   const AttentionOptions& options = {});
// The same for one sequence: q (1, n, heads, d_k).
FOVEA_EXPORT Tensor attention_step(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Mechanism& mechanism, DecodeState& state,
                                   const AttentionOptions& options = {});

// Merges two partial results over disjoint keys by their log-sum-exp; differentiable in all four.
struct Partial {
  Var output, lse;
};
FOVEA_EXPORT Partial merge(Tape& tape, const Partial& a, const Partial& b);

}  // namespace fovea
