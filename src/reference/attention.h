#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "fovea/mechanism.h"
#include "fovea/pattern.h"

// Plain definitions in double precision: no tiles, no chunks, no SIMD, no cleverness. What the engines are tested
// against.
namespace fovea::reference {

// One sequence. Arrays are dense: q (n_q, heads, d_k), k (n_k, kv_heads, d_k), v (n_k, kv_heads, d_v).
struct Problem {
  std::int64_t n_q = 0, n_k = 0, heads = 0, kv_heads = 0, d_k = 0, d_v = 0;
  std::vector<double> q, k, v;
  bool causal = false;
  bool top_left = false;  // query i stands at position i, not at i + n_k - n_q
  double scale = 0.0;     // 0: 1 / sqrt(d_k)
  Pattern pattern;        // window and the like; causal is applied besides
  std::function<double(std::int64_t head, std::int64_t i, std::int64_t j)> bias;         // empty: none; -inf masks
  std::function<double(std::int64_t head, std::int64_t i, std::int64_t j)> drop_factor;  // empty: 1; else 0 or 1/(1-p)
  std::vector<double> slopes;                                                            // ALiBi, per head; empty: none
  std::vector<double> initial_state;         // (kv_heads, d_k, width); empty: zero
  std::vector<std::vector<double>> weights;  // what Mechanism::weights() lists
  std::vector<double> input;                 // (n_k, width), what the layer gave the keys; empty: nothing
  std::int64_t width = 0;
  std::int64_t layer = 0, layers = 1;
  bool training = false;
  // The state decays by e^g before the key of its step enters: (n_k, kv_heads) or (n_k, kv_heads, d_k), <= 0; causal
  // only. Empty: no decay.
  std::vector<double> log_decay;
  // Applied to each feature row (or to q and k where there is no feature map): rotary positions. Empty: none.
  std::function<void(double* row, std::int64_t width, std::int64_t position)> rotate;

  std::int64_t kv_head(std::int64_t head) const { return head * kv_heads / heads; }
  std::int64_t position(std::int64_t i) const { return top_left ? i : i + n_k - n_q; }  // of query i
  const double* query(std::int64_t i, std::int64_t head) const {
    return &q[static_cast<std::size_t>((i * heads + head) * d_k)];
  }
  const double* key(std::int64_t j, std::int64_t h) const {
    return &k[static_cast<std::size_t>((j * kv_heads + h) * d_k)];
  }
  const double* value(std::int64_t j, std::int64_t h) const {
    return &v[static_cast<std::size_t>((j * kv_heads + h) * d_v)];
  }
};

// The scale of the scores: the problem's own, or 1 / sqrt(d_k).
inline double scale_of(const Problem& p) {
  return p.scale != 0.0 ? p.scale : 1.0 / std::sqrt(static_cast<double>(p.d_k));
}
// Slopes of ALiBi: 2^(-8 (h + 1) / H) for a power of two; else those of the next lower power, then every other one of
// the next higher.
std::vector<double> alibi_slopes(std::int64_t heads);
// Whether the problem keeps the pair, its bias aside.
inline bool kept(const Problem& p, std::int64_t i, std::int64_t j) {
  return (!p.causal || j <= p.position(i)) && p.pattern.keep(p.position(i), j);
}
// Rounds down: queries before the first key have negative positions.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
inline double dot(const double* a, const double* b, std::int64_t n) { return std::inner_product(a, a + n, b, 0.0); }

struct Result {
  std::vector<double> o;            // (n_q, heads, d_v)
  std::vector<double> lse;          // (n_q, heads), softmax and self_adjust only
  std::vector<double> final_state;  // (kv_heads, d_k, width), recurrent ones only
};

// o_i = sum_j w_ij v_j over the pairs that `pattern`, `causal` and the bias keep; s: their scores.
enum class Weights : std::uint8_t {
  softmax,
  self_adjust,  // s softmax(s)
  rela,         // max(s, 0)
  relu2,        // max(s, 0)^2
  sigmoid,      // sigmoid(s + offset)
  exp,
  power,   // s^degree
  taylor,  // of exp(s), up to s^degree
};
struct WeightNumbers {
  double offset = 0.0;
  int degree = 2;
};
Result pairwise(const Problem& given, Weights weights, const WeightNumbers& numbers = {});
// The same divided by the sum of the row's weights; a row whose sum is 0 gives 0.
Result averaged(const Problem& given, Weights weights, const WeightNumbers& numbers = {});
// The same where a row's weights are made together: rule(scores, own) gets -inf for pairs that are not kept and the key
// at the query's own position.
using RowWeights = std::function<std::vector<double>(const std::vector<double>& scores, std::int64_t own)>;
Result by_row(const Problem& given, const RowWeights& rule);

// Feature-map attention by its sum over keys, with the decay behind each of them, divided by nothing, D + eps or max(D,
// eps).
enum class Denominator : std::uint8_t { none, add, clamp };
struct Kernel {
  double (*map)(double);
  Denominator denominator = Denominator::none;
  double eps = 0.0;
};
Result kernelized(const Problem& given, const Kernel& kernel);

// Normalises each row of o over all heads together, in place.
enum class RowNorm : std::uint8_t { none, rms, rms_a, layer };
void normalize_rows(const Problem& problem, Result& result, RowNorm norm, double eps);

double elu(double x);
double elu_plus_one(double x);
double relu(double x);

}  // namespace fovea::reference
