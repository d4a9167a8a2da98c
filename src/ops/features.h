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
  given,     // `shifts`
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
  Tensor shifts = {};                      // (b, n, heads), wide type, as find_rescue() has them
  bool pull_shift = false;                 // gradients flow through a maximum; needless where it cancels
  Var gain = {};                           // (groups, d), of waves
  Var weight = {};                         // (b, n, heads), wide type: what a row of features is multiplied with
  std::vector<Sequences::Rows> rows = {};  // rows of no sequence get zeros and give none
};

// x (b, n, heads, d), directions (groups, r, d) in the wide type -> (b, n, heads, r), or 2r for waves. Heads share
// directions in groups of heads / groups. Waves, and all features of f16, are in the wide type.
Var features(Tape& tape, const Var& x, const Tensor& directions, const FeatureOptions& options);

// A stabilizer for keys whose norms would leave nothing of e^(u - |z|^2 / 2 - shift). It cancels in a quotient, so no
// gradient flows through it. All undefined where `shift` serves, unless one would have to wait to know that.
struct Rescue {
  Tensor shifts;       // of each row: the largest u - |z|^2 / 2 of a head in the sequence ...
  Tensor log_decay;    // ... in order: that so far, but `shift` from the first row on that needs no rescue. By it a sum
                       // over the rows before goes over to the row's stabilizer; (b, n, heads), at most 0
  Tensor state_scale;  // (sequences, heads), wide: what takes sums over a whole sequence to `shift`
};
Rescue find_rescue(const Context& context, const Tensor& x, const Tensor& directions, const FeatureOptions& options,
                   bool in_order);

// max(x, 0) sin a, then max(x, 0) cos a: x (b, n, heads, d) -> (b, n, heads, 2d). rotations (b, n, 2), wide type: sine
// and cosine of the angle a of each row.
Var rotated_features(Tape& tape, const Var& x, const Tensor& rotations);

// factor log(sigmoid(x)), elementwise.
Var log_sigmoid(Tape& tape, const Var& x, double factor = 1.0);

}  // namespace fovea
