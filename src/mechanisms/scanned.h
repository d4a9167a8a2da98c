#pragma once

#include <memory>

#include "mechanisms/kind.h"
#include "ops/features.h"
#include "scan/launch.h"

namespace fovea {

// Features of q and k, all heads with the same directions (1, r, d_k): maps without gain, weight, levels or gradients
// of maxima.
struct FeatureMaps {
  FeatureOptions queries, keys;
  Tensor directions;
};

// What a mechanism asks of the scan engine, besides the options of the call.
struct Scanned {
  scan::Map map = scan::Map::identity;
  scan::Denominator denominator = scan::Denominator::none;
  double denominator_eps = 0.0;
  bool rms_norm = false;
  double norm_eps = 0.0;
  bool wide = false;  // the output is f32 (f64 for f64): sums that have yet to be divided or normalised
  std::vector<double> head_log_decay = {};  // the same decay at every step, per kv head; empty: none
  // A decay of its own for every step, (b, n_k, kv_heads), or step and channel, (b, n_k, kv_heads, d_k); it multiplies
  // the state before the key of its step enters. At most 0, with a gradient; f32 (f64 for f64) is best, the other
  // floats are converted. Undefined: none.
  Var log_decay = {};
  // The engine's q and k are these features of the call's, which it makes as it goes: can_make_features() says when.
  std::shared_ptr<const FeatureMaps> features = {};
};
bool can_make_features(const Call& call);

// x, f16 as f32: gradients of features may leave the range of f16, and where they are turned back, or meet a slope of
// 0, infinities become NaN.
Var with_range(Tape& tape, const Var& x);

// Runs the call on the scan engine and records it. With rotary positions the feature map runs first, as an operation of
// its own, because the rotation comes between it and the scan.
AttentionResult run_scanned(const Call& call, const Scanned& scanned);

// The same with features (b, n, heads, r) of the call's q and k in their place. Features of f16 may be f32: the scan
// then is too, and the output f16 again.
struct FeaturePair {
  Var q, k;
};
AttentionResult run_on_features(const Call& call, const FeaturePair& features, const Scanned& scanned);

}  // namespace fovea
