#include "reference/attention.h"

#include <cmath>
#include <limits>

namespace fovea::reference {
namespace {

struct Rows {
  const std::vector<double>& x;  // (n, heads, d_k)
  std::int64_t heads, first;     // `first` is the position of row 0
};

// The rows after the feature map and the rotation.
std::vector<double> features(const Problem& p, const Rows& rows, double (*map)(double)) {
  std::vector<double> out = rows.x;
  if (map != nullptr)
    for (double& value : out) value = map(value);
  const std::int64_t count = static_cast<std::int64_t>(out.size()) / p.d_k;
  for (std::int64_t r = 0; p.rotate && r < count; ++r)
    p.rotate(&out[at(r * p.d_k)], p.d_k, rows.first + r / rows.heads);
  return out;
}

// The problem with q and k replaced by their features.
Problem mapped(const Problem& given, double (*map)(double)) {
  Problem p = given;
  p.q = features(given, {given.q, given.heads, given.position(0)}, map);
  p.k = features(given, {given.k, given.kv_heads, 0}, map);
  return p;
}

// Scores of one row; -inf where the pair is not kept.
std::vector<double> scores(const Problem& p, std::int64_t i, std::int64_t head) {
  const double scale = scale_of(p);
  std::vector<double> s(at(p.n_k), -kInfinity);
  for (std::int64_t j = 0; j < p.n_k; ++j) {
    if (!kept(p, i, j)) continue;
    double score = scale * dot(p.query(i, head), p.key(j, p.kv_head(head)), p.d_k);
    if (!p.slopes.empty()) score -= p.slopes[at(head)] * std::abs(static_cast<double>(p.position(i) - j));
    if (p.bias) score += p.bias(head, i, j);
    s[at(j)] = score;
  }
  return s;
}

// Turns scores into weights in place; returns the log-sum-exp.
double softmax_row(std::vector<double>& s) {
  double top = -kInfinity, total = 0.0;
  for (double x : s) top = std::fmax(top, x);
  if (top == -kInfinity) {
    for (double& x : s) x = 0.0;
    return -kInfinity;
  }
  for (double& x : s) total += x = std::exp(x - top);
  for (double& x : s) x /= total;
  return top + std::log(total);
}

// exp(x) up to the power x^degree.
double taylor(double x, int degree) {
  double sum = 1.0, term = 1.0;
  for (int m = 1; m <= degree; ++m) sum += term *= x / m;
  return sum;
}

// A weight that depends on its own score alone.
double pointwise(double s, Weights weights, const WeightNumbers& numbers) {
  if (s == -kInfinity) return 0.0;
  switch (weights) {
    case Weights::relu2: return relu(s) * relu(s);
    case Weights::sigmoid: return 1.0 / (1.0 + std::exp(-(s + numbers.offset)));
    case Weights::exp: return std::exp(s);
    case Weights::power: return std::pow(s, numbers.degree);
    case Weights::taylor: return taylor(s, numbers.degree);
    default: return relu(s);
  }
}

// Turns scores into weights in place; returns the log-sum-exp, or -inf for weights that have none.
double weigh_row(std::vector<double>& s, Weights weights, const WeightNumbers& numbers) {
  if (weights == Weights::softmax) return softmax_row(s);
  if (weights == Weights::self_adjust) {
    std::vector<double> shares = s;
    const double lse = softmax_row(shares);
    for (std::size_t j = 0; j < s.size(); ++j) s[j] = shares[j] == 0.0 ? 0.0 : s[j] * shares[j];
    return lse;
  }
  for (double& x : s) x = pointwise(x, weights, numbers);
  return -kInfinity;
}

}  // namespace

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::vector<double> slopes;
  if ((heads & (heads - 1)) == 0) {
    const double first = std::pow(2.0, -8.0 / static_cast<double>(heads));
    for (double slope = first; std::ssize(slopes) < heads; slope *= first) slopes.push_back(slope);
    return slopes;
  }
  std::int64_t lower = heads;
  while ((lower & (lower - 1)) != 0) lower &= lower - 1;  // the highest bit alone
  slopes = alibi_slopes(lower);
  const std::vector<double> more = alibi_slopes(2 * lower);
  for (std::size_t h = 0; std::ssize(slopes) < heads; h += 2) slopes.push_back(more[h]);
  return slopes;
}

double elu(double x) { return x > 0 ? x : std::expm1(x); }
double elu_plus_one(double x) { return x > 0 ? x + 1 : std::exp(x); }
double relu(double x) { return x > 0 ? x : 0.0; }

namespace {

// o of row i, head h: the weighted sum of the values.
void mix_row(const Problem& p, const std::vector<double>& w, std::int64_t i, std::int64_t h, double* o) {
  for (std::int64_t j = 0; j < p.n_k; ++j) {
    if (w[at(j)] == 0.0) continue;  // a value behind a zero weight may be NaN
    const double factor = w[at(j)] * (p.drop_factor ? p.drop_factor(h, i, j) : 1.0);
    for (std::int64_t c = 0; c < p.d_v; ++c) o[c] += factor * p.value(j, p.kv_head(h))[c];
  }
}

}  // namespace

Result pairwise(const Problem& given, Weights weights, const WeightNumbers& numbers) {
  const Problem p = mapped(given, nullptr);
  Result out;
  out.o.assign(at(p.n_q * p.heads * p.d_v), 0.0);
  out.lse.assign(at(p.n_q * p.heads), -kInfinity);
  for (std::int64_t i = 0; i < p.n_q; ++i)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      std::vector<double> w = scores(p, i, h);
      out.lse[at(i * p.heads + h)] = weigh_row(w, weights, numbers);
      mix_row(p, w, i, h, &out.o[at((i * p.heads + h) * p.d_v)]);
    }
  return out;
}

Result averaged(const Problem& given, Weights weights, const WeightNumbers& numbers) {
  return by_row(given, [&](const std::vector<double>& s, std::int64_t) {
    std::vector<double> w = s;
    weigh_row(w, weights, numbers);
    double sum = 0.0;
    for (double x : w) sum += x;
    for (double& x : w) x = sum == 0.0 ? 0.0 : x / sum;
    return w;
  });
}

Result by_row(const Problem& given, const RowWeights& rule) {
  const Problem p = mapped(given, nullptr);
  Result out;
  out.o.assign(at(p.n_q * p.heads * p.d_v), 0.0);
  for (std::int64_t i = 0; i < p.n_q; ++i)
    for (std::int64_t h = 0; h < p.heads; ++h)
      mix_row(p, rule(scores(p, i, h), p.position(i)), i, h, &out.o[at((i * p.heads + h) * p.d_v)]);
  return out;
}

namespace {

// Column c of the values with the denominator's column of ones appended.
double augmented(const Problem& p, std::int64_t j, std::int64_t h, std::int64_t c) {
  return c < p.d_v ? p.value(j, h)[c] : 1.0;
}

// What the state of kv head h is multiplied with at step j, in channel a.
double decay(const Problem& p, std::int64_t j, std::int64_t h, std::int64_t a) {
  if (p.log_decay.empty()) return 1.0;
  const std::int64_t columns = static_cast<std::int64_t>(p.log_decay.size()) / (p.n_k * p.kv_heads);
  return std::exp(p.log_decay[at((j * p.kv_heads + h) * columns + a % columns)]);
}

// state (kv_heads, d_k, width) = decay state + k v^T, key by key
void add_keys(const Problem& p, std::int64_t width, std::vector<double>& state) {
  for (std::int64_t h = 0; h < p.kv_heads; ++h)
    for (std::int64_t j = 0; j < (p.top_left ? p.n_q : p.n_k); ++j)  // none behind the last query
      for (std::int64_t a = 0; a < p.d_k; ++a)
        for (std::int64_t c = 0; c < width; ++c) {
          double& entry = state[at((h * p.d_k + a) * width + c)];
          entry = decay(p, j, h, a) * entry + p.key(j, h)[a] * augmented(p, j, h, c);
        }
}

// sum over the keys that row i reads, from the last to the first, and over the initial state
std::vector<double> read_row(const Problem& p, const std::vector<double>& initial, std::int64_t i, std::int64_t h) {
  const std::int64_t g = p.kv_head(h), width = static_cast<std::int64_t>(initial.size()) / (p.kv_heads * p.d_k);
  std::vector<double> row(at(width), 0.0), q(p.query(i, h), p.query(i, h) + p.d_k);
  for (std::int64_t j = p.causal ? p.position(i) : p.n_k - 1; j >= 0; --j) {
    const double weight = dot(q.data(), p.key(j, g), p.d_k);
    for (std::int64_t c = 0; c < width; ++c) row[at(c)] += weight * augmented(p, j, g, c);
    for (std::int64_t a = 0; a < p.d_k; ++a) q[at(a)] *= decay(p, j, g, a);
  }
  for (std::int64_t c = 0; c < width; ++c)
    for (std::int64_t a = 0; a < p.d_k; ++a) row[at(c)] += q[at(a)] * initial[at((g * p.d_k + a) * width + c)];
  return row;
}

}  // namespace

Result kernelized(const Problem& given, const Kernel& kernel) {
  const Problem p = mapped(given, kernel.map);
  const std::int64_t width = p.d_v + (kernel.denominator != Denominator::none ? 1 : 0);
  std::vector<double> initial = p.initial_state;
  initial.resize(at(p.kv_heads * p.d_k * width), 0.0);
  Result out;
  out.final_state = initial;
  add_keys(p, width, out.final_state);
  out.o.assign(at(p.n_q * p.heads * p.d_v), 0.0);
  for (std::int64_t i = 0; i < p.n_q; ++i) {
    if (p.causal && p.position(i) < 0) continue;  // before the first key: an empty row
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::vector<double> row = read_row(p, initial, i, h);
      double divisor = 1.0;
      if (kernel.denominator == Denominator::add) divisor = row.back() + kernel.eps;
      if (kernel.denominator == Denominator::clamp) divisor = std::fmax(row.back(), kernel.eps);
      for (std::int64_t c = 0; c < p.d_v; ++c) out.o[at((i * p.heads + h) * p.d_v + c)] = row[at(c)] / divisor;
    }
  }
  return out;
}

void normalize_rows(const Problem& p, Result& result, RowNorm norm, double eps) {
  if (norm == RowNorm::none) return;
  const std::int64_t width = p.heads * p.d_v;
  for (std::int64_t i = 0; i < p.n_q; ++i) {
    double* row = &result.o[at(i * width)];
    double mean = 0.0, squares = 0.0;
    if (norm == RowNorm::layer)
      for (std::int64_t c = 0; c < width; ++c) mean += row[c] / static_cast<double>(width);
    for (std::int64_t c = 0; c < width; ++c) squares += (row[c] - mean) * (row[c] - mean) / static_cast<double>(width);
    const double divisor = norm == RowNorm::rms_a ? std::sqrt(squares) + eps : std::sqrt(squares + eps);
    for (std::int64_t c = 0; c < width; ++c) row[c] = (row[c] - mean) / divisor;
  }
}

}  // namespace fovea::reference
