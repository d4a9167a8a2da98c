#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/wide.h"
#include "fovea/attention.h"
#include "reference/attention.h"

namespace fovea {

// One attention call after the checks that hold for every mechanism.
struct Call {
  Tape& tape;
  Var q, k, v;  // (b, n_q, heads, d_k), (b, n_k, kv_heads, d_k), (b, n_k, kv_heads, d_v)
  const Mechanism& mechanism;
  const AttentionOptions& options;
  std::vector<Sequences::Rows> queries, keys;  // sequence s of q attends to sequence s of k and v
};

// The scale of the scores: the call's own, or 1 / sqrt(d_k).
inline double scale_of(const Call& call) {
  return call.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(call.q.dim(3))));
}

// The features a mechanism has, as bits.
class Features {
 public:
  constexpr Features(std::initializer_list<Feature> list) {
    for (Feature f : list) bits_ |= 1u << static_cast<unsigned>(f);
  }
  constexpr Features with(Feature f) const {
    Features more = *this;
    more.bits_ |= 1u << static_cast<unsigned>(f);
    return more;
  }
  constexpr bool has(Feature f) const { return ((bits_ >> static_cast<unsigned>(f)) & 1u) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

// Sizes of a benchmark: what the flop count of a mechanism depends on, per batch item.
struct Sizes {
  double n, heads, d_k, d_v;
  bool causal;
};

struct Flops {
  double forward, backward;
};

// One step of several sequences after the checks that hold for every mechanism.
struct StepCall {
  const Call& call;                      // of the new rows alone, causal; k and v may be undefined: attention_step()
  std::span<DecodeState* const> states;  // one for each sequence of call.queries
};

// What the step form remembers of a sequence.
enum class StepMemory : std::uint8_t {
  cache,  // a key and a value of each token
  state,  // what the recurrent form carries, of constant size
};

// How a mechanism goes on from what it remembers. step_on_cache() and step_on_state() serve most of them.
struct StepForm {
  StepMemory memory = StepMemory::cache;
  // Moves the states on, and gives the rows of q: (b, n, heads, d_v), zero where they belong to no sequence. Null:
  // there is no step form.
  Tensor (*run)(const StepCall& step) = nullptr;
  // The first of `seen` cached positions that a query at position `seen` or later may read; null: 0.
  std::int64_t (*first_needed)(const Mechanism& mechanism, const AttentionOptions& options,
                               std::int64_t seen) = nullptr;
  bool rotates_inside = false;  // rotates what it makes of q and k, not q and k: a cache keeps them as they came
};

// How a layer makes q, k and v for a mechanism, and what it does with the output before its last projection. Most
// mechanisms leave all of it alone.
struct LayerStyle {
  bool one_head = false;
  std::int64_t key_width = 0;     // of a head; 0: the layer's width divided by its heads
  std::int64_t value_factor = 1;  // values are so many times as wide
  bool shared_qk = false;         // k is q
  bool values_only = false;       // q and k are not read
  Activation qk_activation = Activation::identity, v_activation = Activation::identity;
  bool gate = false;  // output times act(x W + b)
  Activation gate_activation = Activation::silu;
};

// Everything the registry knows about a mechanism. Each mechanism's file defines one; list.inc names them all.
struct MechanismKind {
  std::string_view name, family, summary, paper;
  std::vector<ParameterSpec> parameters;
  Features features;
  bool (*lacks)(const Mechanism& mechanism, Feature feature) = nullptr;  // features that a setting takes away
  bool subquadratic;
  StepForm step = {};
  AttentionResult (*run)(const Call& call);
  // The plain definition, in double precision, on one sequence.
  reference::Result (*reference)(const reference::Problem& problem, const Mechanism& mechanism);
  // Floating-point operations that no exact algorithm of this mechanism avoids.
  Flops (*flops)(const Sizes& sizes, const Mechanism& mechanism);
  // Weights besides q, k and v; null: none.
  std::vector<WeightSpec> (*weights)(const Mechanism& mechanism, const LayerSizes& sizes) = nullptr;
  bool log_factor = false;                                     // of one below quadratic: n log n rather than n
  bool needs_input = false;                                    // reads AttentionOptions::input
  bool (*spares_input)(const Mechanism& mechanism) = nullptr;  // settings that do not, of one that does
  bool chooses = false;  // picks keys, rows or buckets by comparing numbers: output or gradient jump where they tie
  // Made with the vendor's products: the last bits of a row may depend on threads and on other rows.
  bool rounds_freely = false;
  // Settings whose causal form weighs by later tokens too, as the published one does: not even its gradient is strict.
  bool (*leaks)(const Mechanism& mechanism) = nullptr;
  // Settings whose gradient of k and v leaves out, by definition, what flows through a memory; null: none.
  bool (*stops_gradient)(const Mechanism& mechanism) = nullptr;
  LayerStyle style = {};
  // The settings of a picture of 48 tokens, "window:left=4,right=4"; empty: it would show nothing but a filled square.
  std::string_view picture = {};
  // The settings beside which every choice is tested; empty: the defaults, where short sequences show all of it.
  std::string_view tested = {};
  // Settings that draw random numbers while the tape trains, besides dropout; null: none.
  bool (*draws)(const Mechanism& mechanism) = nullptr;
};

// The step forms that most mechanisms share. The first runs the causal form of each sequence over all that it has
// cached; the second runs the causal form of all sequences at once, states in and states out.
Tensor step_on_cache(const StepCall& step);
Tensor step_on_state(const StepCall& step);
inline StepForm cached_step(decltype(StepForm::first_needed) first_needed = nullptr) {
  return {.memory = StepMemory::cache, .run = step_on_cache, .first_needed = first_needed};
}
inline StepForm state_step() { return {.memory = StepMemory::state, .run = step_on_state}; }

// All of them, in the order of list.inc.
std::span<const MechanismKind* const> mechanism_kinds();

// Refuses shapes, types, values, weights and input that fit no call.
void check_operands(const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                    const AttentionOptions& options);

// "attention "nystrom" has no causal form", with the cell of the support matrix and what to use instead.
[[noreturn]] void refuse_feature(const Mechanism& mechanism, Feature feature, std::string_view what);

// Feature sets of the two engines.
inline constexpr Features kPairwiseNoLse{Feature::scale,   Feature::causal,  Feature::bidirectional, Feature::cross,
                                         Feature::padding, Feature::packed,  Feature::dropout,       Feature::bias,
                                         Feature::window,  Feature::pattern, Feature::alibi,         Feature::rotary,
                                         Feature::step,    Feature::grouped, Feature::strict};
inline constexpr Features kPairwise = kPairwiseNoLse.with(Feature::lse);
inline constexpr Features kRecurrent{Feature::causal,  Feature::bidirectional, Feature::cross,
                                     Feature::padding, Feature::packed,        Feature::state,
                                     Feature::step,    Feature::grouped,       Feature::strict};
// A state that fades has a direction in time.
inline constexpr Features kDecayed{Feature::causal, Feature::cross, Feature::padding, Feature::packed,
                                   Feature::state,  Feature::step,  Feature::grouped, Feature::strict};

// 2 (d_k + d_v) flops for every pair; backward rebuilds the scores and makes four more products.
inline Flops pairwise_flops(double pairs, const Sizes& s) {
  const double forward = pairs * s.heads * 2.0 * (s.d_k + s.d_v);
  return {forward, 2.5 * forward};
}

// Two products of n rows with landmarks, and the iteration for their inverse: 4 small products a step, 12 backward.
inline Flops landmark_flops(double landmarks, double steps, const Sizes& s) {
  const Flops tall = pairwise_flops(2.0 * s.n * landmarks, s);
  const double small = 2.0 * landmarks * landmarks * landmarks * s.heads * steps;
  return {tall.forward + 4.0 * small, tall.backward + 12.0 * small};
}

inline Flops dense_flops(const Sizes& s, const Mechanism&) {
  return pairwise_flops(s.n * s.n * (s.causal ? 0.5 : 1.0), s);
}

// 4 d_k d_v per row for the state and its read-out, twice that backward; a causal chunk of 64 adds its triangle,
// whatever chunk is used: 2 products forward, 5 backward.
inline Flops scan_flops(const Sizes& s, const Mechanism&) {
  const double rows = s.n * s.heads, state = 4.0 * s.d_k * s.d_v;
  const double triangle = s.causal ? 32.0 * (s.d_k + s.d_v) : 0.0;
  return {rows * (state + 2.0 * triangle), rows * (2.0 * state + 5.0 * triangle)};
}

// A window reads its last `left` keys; anything else may read all of them.
inline std::int64_t window_start(const Mechanism&, const AttentionOptions& options, std::int64_t seen) {
  if (!options.window || options.window->left < 0) return 0;
  return std::max<std::int64_t>(0, seen - options.window->left);
}

}  // namespace fovea
