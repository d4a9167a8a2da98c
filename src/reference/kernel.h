#pragma once

#include "reference/attention.h"

// Definitions of the kernel mechanisms that are more than a map of single channels.
namespace fovea::reference {

// Which row a feature map is applied to.
struct FeatureRow {
  bool query;
  std::int64_t group;     // the kv head it belongs to
  std::int64_t position;  // counted on the key axis
  const double* x;        // (d_k)
};
using FeatureMap = std::function<std::vector<double>(const FeatureRow& row)>;
// The problem with q and k replaced by `width` features each.
Problem with_features(const Problem& given, std::int64_t width, const FeatureMap& map);

// FAVOR+. weights[0]: directions (features, d_k).
struct Performer {
  enum class Epsilon : std::uint8_t { exact, inside, outside };
  std::int64_t features;
  bool relu;  // f(x) = max(x, 0) + 1e-3 instead of the softmax kernel
  Epsilon epsilon = Epsilon::exact;
  double eps = 0.0, clamp = 0.0;
  bool scale_twice = false;  // the scores that features stand for are divided by sqrt(d_k) once more
};
Result performer(const Problem& given, const Performer& performer);

// weights: directions (kv_heads, features, d_k), sigma (kv_heads, d_k); gated: gate (width, kv_heads) and its bias.
struct RandomWaves {
  std::int64_t features;
  double tau, eps;
  double size;  // of the features; 0: 1 / sqrt(features)
  bool gate;
};
Result random_waves(const Problem& given, const RandomWaves& waves);

// relu(q_i) . relu(k_j) cos(pi (i - j) / 2M). The state is kept as seen from the position behind its last key.
struct CosineWeights {
  double period = 0.0;  // M; 0: the longer of the two sequences
  double eps = 0.0;
};
Result cosine_weights(const Problem& given, const CosineWeights& weights);

// sum over j <= i of gamma^(i - j) (scale q_i . k_j) v_j, gamma = 1 - 2^(-5 - h) of query head h, which has a state
// of its own. The state holds k_j v_j without the scale.
Result retention(const Problem& given);

// sum over j <= i of e^(-s (i - j)) (q_i . k_j) v_j. s of query head h of H: the slope of ALiBi times (1 - layer /
// (layers
// - 1) + 1e-5), or 8 h / H times (1 - layer / layers).
Result lightning(const Problem& given, bool alibi_slopes);

// weights: down (width, rank), up (rank, kv_heads d_k), bias (kv_heads d_k), gain (d_v).
struct GatedLinear {
  std::int64_t rank;
  double temperature, scale, eps;
};
Result gated_linear(const Problem& given, const GatedLinear& gated);

// Normalises each head of each row of o on its own, x / sqrt(mean(x^2) + eps).
void normalize_each_head(const Problem& problem, Result& result, double eps);

}  // namespace fovea::reference
