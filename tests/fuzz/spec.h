#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/mechanism.h"
#include "fovea/sequences.h"

// Random calls of attention against its definitions.
namespace fovea::fuzz {

using Ints = std::vector<std::int32_t>;

// One call, described so that it can be printed on a line and run again anywhere. Defaults are what most calls have.
struct Spec {
  std::string mechanism = "softmax";  // as Mechanism::parse reads it
  std::string dtype = "f32";
  std::string isa;        // empty: the strongest of the machine, and where it has not this one
  Ints threads{1};        // of each call on one context: all must give the same bits
  bool layer = false;     // a whole attention layer: its projections as well
  std::int64_t seed = 1;  // of the numbers
  double size = 1.0;      // of the entries of q and k
  std::int64_t batch = 1, n_q = 1, n_k = 1, heads = 1, kv_heads = 1, d_k = 1, d_v = 1, width = 1;
  Ints lengths, key_lengths, packed, key_packed;
  bool causal = false;
  bool top_left = false;  // the first query stands on the first key
  double scale = 0.0;     // 0: the mechanism's own
  double dropout = 0.0;
  bool windowed = false;
  std::int64_t left = -1, right = -1;
  std::string pattern;      // empty, "checkers", "blocks" or "nothing"
  std::string bias, mask;   // empty, or for the axes b, h, q, k the letter, or 1 where it is broadcast: "1h1k"
  std::string diagonals;    // the same for b, h
  std::int64_t longer = 0;  // diagonals for lengths that are so much larger
  bool alibi = false;
  std::string rotary;  // empty, "pairs" or "halves"
  bool lse = false, state = false, final_state = false;
  std::int64_t index = 0, layers = 1;  // of the layer
  std::string strides = "ddd";         // of q, k and v: see Stride
  bool nan_padding = false;            // rows of no sequence hold NaN
  std::string wrong;                   // what the call must be refused for; empty: nothing

  bool operator==(const Spec&) const = default;
};

// How a (b, n, heads, d) tensor lies in memory.
enum class Stride : char {
  dense = 'd',
  by_head = 't',    // (b, heads, n, d)
  sliced = 's',     // rows of something wider, as q, k and v of one product are
  reversed = 'r',   // tokens and heads run backwards
  column = 'c',     // (d, b, n, heads): the last axis is not dense
  one_batch = 'z',  // all items are the same memory
  one_head = 'h',   // all heads are
};

// Calls f(name, member) for every field, in the order of the line.
template <class S, class F>
void each_field(S& s, const F& f) {
  f("dtype", s.dtype), f("isa", s.isa), f("threads", s.threads), f("layer", s.layer), f("seed", s.seed);
  f("size", s.size), f("batch", s.batch), f("n_q", s.n_q), f("n_k", s.n_k), f("heads", s.heads);
  f("kv_heads", s.kv_heads), f("d_k", s.d_k), f("d_v", s.d_v), f("width", s.width);
  f("lengths", s.lengths), f("key_lengths", s.key_lengths), f("packed", s.packed), f("key_packed", s.key_packed);
  f("causal", s.causal), f("top_left", s.top_left), f("scale", s.scale), f("dropout", s.dropout),
      f("windowed", s.windowed);
  f("left", s.left), f("right", s.right), f("pattern", s.pattern), f("bias", s.bias), f("mask", s.mask);
  f("diagonals", s.diagonals), f("longer", s.longer), f("alibi", s.alibi), f("rotary", s.rotary), f("lse", s.lse);
  f("state", s.state), f("final_state", s.final_state), f("index", s.index), f("layers", s.layers);
  f("strides", s.strides), f("nan_padding", s.nan_padding), f("wrong", s.wrong);
}

std::string text_of(const Spec& spec);  // "softmax n_q=3 ...": what differs from the defaults
Spec spec_from(std::string_view text);  // refuses what it does not know

// Case `index` of a run: a function of the seed and the index alone. `only`: of these mechanisms.
struct Draw {
  std::uint64_t seed = 1;
  std::vector<std::string> only;
};
Spec draw(const Draw& run, std::uint64_t index);

// What a spec says about the sequences of its queries and keys.
Sequences queries_of(const Spec& spec);
Sequences keys_of(const Spec& spec);

}  // namespace fovea::fuzz
