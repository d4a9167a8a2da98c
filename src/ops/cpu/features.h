#pragma once

#include "core/scratch.h"
#include "ops/features_kernels.h"
#include "ops/features_policy.h"
#include "simd/matrix.h"
#include "simd/prefetch.h"

// The loops of features, by tasks.
namespace fovea::cpu {

// Rows that are multiplied at a time: 32 of 256 features are 32 KB.
inline constexpr std::int64_t kFeatureBlock = 32;

using fovea::feature_unit;
using fovea::kUnitEps;
using fovea::level_row;

// Rows [begin, end) of a batch item, one head.
struct FeatureTask {
  std::int64_t batch, begin, end, head;
  std::int64_t sequence, origin;  // the sequence, and its first row
};

// What both directions read. Tensors of rows are (b, n, heads, ...); `wide` ones are f32, f64 for f64.
struct FeatureRows {
  FeatureMap map;
  double scale, size, add;
  bool unit, subtract_norm;
  Stabilizer stabilizer;
  bool pull_shift;
  double shift;
  Tensor x;                // last axis dense
  Tensor directions;       // wide, dense: (groups, d, padded r) forward, (groups, r, padded d) backward
  Tensor gain;             // (groups, d), wide; undefined: none
  Tensor weight;           // (b, n, heads), wide, dense; undefined: none
  Tensor tops;             // (b, n, heads), wide, dense; sequence: c of each row
  FeatureLevels levels;    // of keys: c of each feature; of queries: added to u
  Tensor peaks;            // i32 (b, n, heads), dense; pull_shift: which u of each row is the largest
  std::int64_t count = 0;  // directions of a group
};

struct FeatureForward {
  FeatureRows in;
  Tensor y;  // dense
};
// Scratch of one thread.
std::size_t feature_scratch_bytes(const FeatureRows& in);
void feature_rows(const FeatureForward& io, const FeatureTask& task, Room scratch);
// The largest u of each row into in.tops.
void feature_tops(const FeatureRows& in, const FeatureTask& task, Room scratch);
// u - |z|^2 / 2 of each row, times feature_unit, into `out` (b, n, heads, r), wide, dense.
void feature_exponents(const FeatureRows& in, const FeatureTask& task, const Tensor& out, Room scratch);

struct FeatureBackward {
  FeatureRows in;
  Tensor y, dy;     // dense
  Tensor dx;        // last axis dense
  Tensor d_weight;  // (b, n, heads), wide; undefined: not wanted
  Tensor sums;      // (b, n, heads), wide; sequence stabilizer: what the row gives to -dc
};
// d_gain (d), wide: the share of these rows; null: not wanted.
void vjp_feature_rows(const FeatureBackward& io, const FeatureTask& task, void* d_gain, Room scratch);

// What those need who want features a block at a time: at most kFeatureBlock rows of f32, without a gain, weights or
// gradients of maxima.
FeatureForward prepared(const Context& context, const kernels::FeatureForward& io);
FeatureBackward prepared(const Context& context, const kernels::FeatureBackward& io);
struct BlockRoom {
  Room scratch;    // of one thread
  Prefetch* next;  // fetched meanwhile; null: nothing
};
// Features of the rows into `to` (rows, padded r), and into io.y where that is defined.
void feature_block(const FeatureForward& io, const FeatureTask& rows, Matrix<float> to, const BlockRoom& room);
// dx of the rows from their features and the gradient of those, which is used up.
template <class R>
struct BlockGradient {
  Matrix<const R> y;
  Matrix<R> dy;
};
void vjp_feature_block(const FeatureBackward& io, const FeatureTask& rows, const BlockGradient<float>& of,
                       const BlockRoom& room);

}  // namespace fovea::cpu
