#pragma once

#include <limits>
#include <vector>

#include "fovea/ops.h"

// Features of kernel attention, one operation from x to features: the products with the directions stay in cache.
namespace fovea {

enum class FeatureMap : std::uint8_t {
  exponential,  // e^(u - c), with |x|^2 / 2 subtracted from u on request
  relu,         // max(u, 0)
  waves,        // sin u, then cos u: two for each direction
};

// Where the c of e^(u - c) comes from. A maximum is that of u alone.
enum class Stabilizer : std::uint8_t {
  fixed,     // `shift`
  row,       // the largest u of the row
  sequence,  // the largest u of a head in the sequence
  level,     // of each feature its own: `levels`
};

// What keys have in common in each feature: the largest u - |z|^2 / 2 in a sequence or, in order, so far. Keys are
// divided by it and queries multiplied, so it cancels in a quotient, and no gradient flows through it; every feature
// then has a key of 1. Exponents are those of 2.
struct FeatureLevels {
  // Where the rows of a sequence find theirs: its row t at `first` + t or, where that is before `first` or rows are in
  // no order, at `floor`.
  struct Span {
    std::int64_t first, offset, floor;
  };
  bool in_order = false;
  Tensor rows = {};              // (m, heads of the keys, r), wide type
  std::vector<Span> spans = {};  // of each sequence

  bool defined() const { return rows.defined(); }
};

// weight (size f(W (gain * z)) + add), z = scale x.
struct FeatureOptions {
  FeatureMap map = FeatureMap::exponential;
  double scale = 1.0;
  bool unit = false;  // z = scale x / (|x| + 1e-3) instead
  double size = 1.0, add = 0.0;
  bool subtract_norm = false;  // |z|^2 / 2, of exponential
  Stabilizer stabilizer = Stabilizer::fixed;
  double shift = 0.0;
  // More to `shift` where e^(|w|^2 / 2), the most that e^(w z - |z|^2 / 2) can be, would be above e^this.
  double largest_exponent = std::numeric_limits<double>::infinity();
  FeatureLevels levels = {};               // of keys: Stabilizer::level; of queries: added to u
  bool pull_shift = false;                 // gradients flow through a maximum; needless where it cancels
  Var gain = {};                           // (groups, d), of waves
  Var weight = {};                         // (b, n, heads), wide type: what a row of features is multiplied with
  std::vector<Sequences::Rows> rows = {};  // rows of no sequence get zeros and give none
};

// x (b, n, heads, d), directions (groups, r, d) in the wide type -> (b, n, heads, r), or 2r for waves. Heads share
// directions in groups of heads / groups. Waves, and all features of f16, are in the wide type.
Var features(Tape& tape, const Var& x, const Tensor& directions, const FeatureOptions& options);

// How many rows of each sequence come before the first that leaves so little of e^(u - |z|^2 / 2 - shift) that it needs
// levels; all of them where they are in no order and none needs any. None on devices that one would have to wait for.
std::vector<std::int64_t> rows_above(const Context& context, const Tensor& x, const Tensor& directions,
                                     const FeatureOptions& options, bool in_order);

// Levels of keys x, and what becomes of sums over the rows before and after it, which have the scale of `shift`.
struct Leveled {
  FeatureLevels levels;        // `shift` in a sequence that is in no order and has no row that needs them
  Tensor log_decay;            // in order, (b, n, heads, r): by it a sum over the rows before goes to a row's level
  Tensor state_in, state_out;  // (sequences, heads, r): what takes a sum to the first level, and from the last
};
// state (sequences, heads, r, width): the sums before the first row, that of the features last. Undefined: none.
Leveled find_levels(const Context& context, const Tensor& x, const Tensor& directions, const FeatureOptions& options,
                    const Tensor& state, bool in_order);
// The levels as queries see them, the last of which stand beside the last keys.
FeatureLevels seen_from(const FeatureLevels& levels, const std::vector<Sequences::Rows>& queries,
                        const std::vector<Sequences::Rows>& keys);

// max(x, 0) sin a, then max(x, 0) cos a: x (b, n, heads, d) -> (b, n, heads, 2d). rotations (b, n, 2), wide type: sine
// and cosine of the angle a of each row.
Var rotated_features(Tape& tape, const Var& x, const Tensor& rotations);

// factor log(sigmoid(x)), elementwise.
Var log_sigmoid(Tape& tape, const Var& x, double factor = 1.0);

}  // namespace fovea
