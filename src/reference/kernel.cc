#include "reference/kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace fovea::reference {
namespace {

// W x of rows of d channels.
std::vector<double> project(const double* directions, std::int64_t count, const std::vector<double>& x) {
  std::vector<double> u(at(count), 0.0);
  for (std::size_t l = 0; l < u.size(); ++l)
    for (std::size_t c = 0; c < x.size(); ++c) u[l] += directions[l * x.size() + c] * x[c];
  return u;
}

double half_norm(const std::vector<double>& x) {
  double sum = 0.0;
  for (double v : x) sum += 0.5 * v * v;
  return sum;
}

double log_sigmoid(double x) { return std::fmin(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

// input W + b: (n_k, columns)
std::vector<double> gates(const Problem& p, const std::vector<double>& weight, const std::vector<double>& bias) {
  const std::size_t columns = bias.size(), width = at(p.width);
  std::vector<double> out;
  for (std::size_t j = 0; j < at(p.n_k); ++j)
    for (std::size_t c = 0; c < columns; ++c) {
      double sum = bias[c];
      for (std::size_t a = 0; a < width; ++a) sum += p.input[j * width + a] * weight[a * columns + c];
      out.push_back(sum);
    }
  return out;
}

}  // namespace

Problem with_features(const Problem& given, std::int64_t width, const FeatureMap& map) {
  Problem p = given;
  p.d_k = width;
  p.q.clear();
  p.k.clear();
  for (std::int64_t i = 0; i < given.n_q; ++i)
    for (std::int64_t h = 0; h < given.heads; ++h) {
      const std::vector<double> row = map({true, given.kv_head(h), given.position(i), given.query(i, h)});
      p.q.insert(p.q.end(), row.begin(), row.end());
    }
  for (std::int64_t j = 0; j < given.n_k; ++j)
    for (std::int64_t h = 0; h < given.kv_heads; ++h) {
      const std::vector<double> row = map({false, h, j, given.key(j, h)});
      p.k.insert(p.k.end(), row.begin(), row.end());
    }
  return p;
}

namespace {

std::vector<double> performer_input(const Problem& p, const Performer& performer, const double* x) {
  const double scale = scale_of(p) / (performer.scale_twice ? std::sqrt(static_cast<double>(p.d_k)) : 1.0);
  std::vector<double> out(x, x + p.d_k);
  for (double& v : out) v *= std::sqrt(scale);
  return out;
}

// The largest projection of any key of a kv head.
double largest_key(const Problem& p, const Performer& performer, std::int64_t group) {
  double top = -INFINITY;
  for (std::int64_t j = 0; j < p.n_k; ++j)
    for (double u : project(p.weights[0].data(), performer.features, performer_input(p, performer, p.key(j, group))))
      top = std::fmax(top, u);
  return top;
}

// What keeps e^(u - |x|^2 / 2), at most e^(|w|^2 / 2), from overflowing; it cancels.
double fixed_shift(const Problem& p) {
  double most = 0.0;
  for (std::size_t l = 0; l < p.weights[0].size(); l += at(p.d_k))
    most = std::fmax(most, half_norm({p.weights[0].begin() + static_cast<std::ptrdiff_t>(l),
                                      p.weights[0].begin() + static_cast<std::ptrdiff_t>(l + at(p.d_k))}));
  return std::fmax(0.0, most - 60.0);
}

// Log of the sum of e^(a_l + b_l).
double log_of_sum(const std::vector<double>& a, const std::vector<double>& b) {
  double top = -INFINITY, sum = 0.0;
  for (std::size_t l = 0; l < a.size(); ++l) top = std::fmax(top, a[l] + b[l]);
  for (std::size_t l = 0; l < a.size(); ++l) sum += std::exp(a[l] + b[l] - top);
  return top + std::log(sum);
}

// The output of the exact mode by its weights, which are made from logarithms: (n_q, heads, d_v). Features of long keys
// are smaller than the least double.
std::vector<double> output_from_logs(const Problem& p, const Performer& performer) {
  const auto projected = [&](const double* row, bool key) {
    const std::vector<double> x = performer_input(p, performer, row);
    std::vector<double> u = project(p.weights[0].data(), performer.features, x);
    for (double& e : u) e -= key ? half_norm(x) : 0.0;
    return u;
  };
  std::vector<std::vector<double>> keys;  // (n_k, kv_heads) of features
  for (std::int64_t j = 0; j < p.n_k; ++j)
    for (std::int64_t h = 0; h < p.kv_heads; ++h) keys.push_back(projected(p.key(j, h), true));
  std::vector<double> o;
  for (std::int64_t i = 0; i < p.n_q; ++i)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::vector<double> query = projected(p.query(i, h), false);
      std::vector<double> logs(at(p.n_k), -INFINITY), row(at(p.d_v), 0.0);
      for (std::int64_t j = 0; j < p.n_k; ++j)
        if (kept(p, i, j)) logs[at(j)] = log_of_sum(query, keys[at(j * p.kv_heads + p.kv_head(h))]);
      const double top = logs.empty() ? -INFINITY : *std::max_element(logs.begin(), logs.end());
      double sum = 0.0;
      for (double log : logs) sum += std::isinf(log) ? 0.0 : std::exp(log - top);
      for (std::int64_t j = 0; j < p.n_k; ++j)
        for (std::int64_t c = 0; c < p.d_v && !std::isinf(logs[at(j)]); ++c)
          row[at(c)] += std::exp(logs[at(j)] - top) / sum * p.value(j, p.kv_head(h))[c];
      o.insert(o.end(), row.begin(), row.end());
    }
  return o;
}

}  // namespace

Result performer(const Problem& given, const Performer& performer) {
  using Epsilon = Performer::Epsilon;
  const bool exact = performer.epsilon == Epsilon::exact;
  const double size = exact ? 1.0 : 1.0 / std::sqrt(static_cast<double>(performer.features));
  const double add = exact ? 0.0 : performer.epsilon == Epsilon::inside ? size * performer.eps : performer.eps;
  std::vector<double> key_shift;
  for (std::int64_t h = 0; h < given.kv_heads; ++h)
    key_shift.push_back(exact ? fixed_shift(given) : largest_key(given, performer, h));
  const Problem p = with_features(given, performer.features, [&](const FeatureRow& row) {
    const std::vector<double> x = performer_input(given, performer, row.x);
    std::vector<double> y = project(given.weights[0].data(), performer.features, x);
    if (performer.relu) {
      for (double& u : y) u = relu(u) + 1e-3;
      return y;
    }
    const double c = row.query ? *std::max_element(y.begin(), y.end()) : key_shift[at(row.group)];
    const double norm = row.query && exact ? 0.0 : half_norm(x);
    for (double& u : y) u = size * std::exp(u - norm - c) + add;
    return y;
  });
  const double least = exact || performer.relu ? 0.0 : performer.clamp;
  Result result = kernelized(p, {nullptr, Denominator::clamp, std::fmax(least, std::numeric_limits<double>::min())});
  const bool has_state =
      std::any_of(given.initial_state.begin(), given.initial_state.end(), [](double x) { return x != 0.0; });
  if (exact && !performer.relu && !has_state && !given.rotate) result.o = output_from_logs(given, performer);
  return result;
}

Result random_waves(const Problem& given, const RandomWaves& waves) {
  const std::int64_t d = given.d_k, r = waves.features, groups = given.kv_heads;
  Problem decayed = given;
  std::vector<double> mass;  // (n_k, groups): sum of the weights a query there gives to all keys
  if (waves.gate) {
    decayed.log_decay = gates(given, given.weights[2], given.weights[3]);
    std::vector<double> kept(at(groups), 0.0);
    for (double& g : decayed.log_decay) {
      g = log_sigmoid(g);
      kept[mass.size() % at(groups)] += g;
      mass.push_back(-std::expm1(kept[mass.size() % at(groups)]));
    }
  }
  const Problem p = with_features(decayed, 2 * r, [&](const FeatureRow& row) {
    std::vector<double> x(row.x, row.x + d);
    const double length = std::sqrt(2.0 * half_norm(x));
    for (std::int64_t c = 0; c < d; ++c)
      x[at(c)] *= given.weights[1][at(row.group * d + c)] / (waves.tau * (length + 1e-3));
    double weight = waves.size > 0.0 ? waves.size : std::pow(static_cast<double>(r), -0.5);
    const std::int64_t step = row.position * groups + row.group;
    if (waves.gate && row.position >= 0)
      weight *= row.query ? 1.0 / mass[at(step)] : -std::expm1(decayed.log_decay[at(step)]);
    const std::vector<double> u = project(&given.weights[0][at(row.group * r * d)], r, x);
    std::vector<double> y;
    for (double v : u) y.push_back(weight * std::sin(v));
    for (double v : u) y.push_back(weight * std::cos(v));
    return y;
  });
  return kernelized(p, {nullptr, Denominator::clamp, waves.eps});
}

Result cosine_weights(const Problem& given, const CosineWeights& weights) {
  const double longest = static_cast<double>(std::max(given.n_q, given.n_k));
  const double step = std::numbers::pi / (2.0 * (weights.period > 0.0 ? weights.period : longest));
  const Problem p = with_features(given, 2 * given.d_k, [&](const FeatureRow& row) {
    // Without causal order both sides are counted from their own beginning.
    const std::int64_t position = row.position - (row.query && !given.causal ? given.n_k - given.n_q : 0);
    const double turn = step * static_cast<double>(position);
    std::vector<double> y;
    for (std::int64_t c = 0; c < given.d_k; ++c) y.push_back(relu(row.x[c]) * std::sin(turn));
    for (std::int64_t c = 0; c < given.d_k; ++c) y.push_back(relu(row.x[c]) * std::cos(turn));
    return y;
  });
  Result result = kernelized(p, {nullptr, Denominator::clamp, weights.eps});
  const double angle = step * static_cast<double>(given.top_left ? given.n_q : given.n_k);
  const std::int64_t half = given.d_k * (given.d_v + 1);
  for (std::int64_t h = 0; h < given.kv_heads; ++h)
    for (std::int64_t e = 0; e < half; ++e) {
      double &sine = result.final_state[at(2 * h * half + e)], &cosine = result.final_state[at((2 * h + 1) * half + e)];
      const double s = sine, c = cosine;
      sine = s * std::cos(angle) - c * std::sin(angle);
      cosine = c * std::cos(angle) + s * std::sin(angle);
    }
  return result;
}

namespace {

// log_decay[h] at every step of query head h, whose keys and values are repeated for it.
Result decayed(const Problem& given, const std::vector<double>& log_decay) {
  Problem p = given;
  p.kv_heads = given.heads;
  p.k.clear();
  p.v.clear();
  for (std::int64_t j = 0; j < given.n_k; ++j) {
    for (std::int64_t h = 0; h < given.heads; ++h) {
      const double *k = given.key(j, given.kv_head(h)), *v = given.value(j, given.kv_head(h));
      p.k.insert(p.k.end(), k, k + given.d_k);
      p.v.insert(p.v.end(), v, v + given.d_v);
    }
    p.log_decay.insert(p.log_decay.end(), log_decay.begin(), log_decay.end());
  }
  return kernelized(p, {nullptr, Denominator::none, 0.0});
}

}  // namespace

Result retention(const Problem& given) {
  std::vector<double> decays;
  for (std::int64_t h = 0; h < given.heads; ++h)
    decays.push_back(std::log(1.0 - std::pow(2.0, -5.0 - static_cast<double>(h))));
  Result result = decayed(given, decays);
  for (double& o : result.o) o *= scale_of(given);
  return result;
}

Result lightning(const Problem& given, bool alibi_slopes) {
  const auto layer = static_cast<double>(given.layer), layers = static_cast<double>(given.layers);
  std::vector<double> decays = reference::alibi_slopes(given.heads);
  for (std::size_t h = 0; h < decays.size(); ++h)
    decays[h] = alibi_slopes
                    ? -decays[h] * (1.0 + 1e-5 - (layers > 1.0 ? layer / (layers - 1.0) : 0.0))
                    : -8.0 * static_cast<double>(h) / static_cast<double>(given.heads) * (layers - layer) / layers;
  return decayed(given, decays);
}

Result gated_linear(const Problem& given, const GatedLinear& gated) {
  Problem p = given;
  const std::vector<double> low = gates(given, given.weights[0], std::vector<double>(at(gated.rank), 0.0));
  Problem inner = given;
  inner.input = low;
  inner.width = gated.rank;
  p.log_decay = gates(inner, given.weights[1], given.weights[2]);
  for (double& g : p.log_decay) g = log_sigmoid(g) / gated.temperature;
  Result result = kernelized(p, {nullptr, Denominator::none, 0.0});
  for (double& o : result.o) o *= gated.scale;
  normalize_each_head(p, result, gated.eps);
  for (std::size_t i = 0; i < result.o.size(); ++i) result.o[i] *= given.weights[3][i % at(given.d_v)];
  return result;
}

void normalize_each_head(const Problem& p, Result& result, double eps) {
  for (std::size_t row = 0; row < result.o.size(); row += at(p.d_v)) {
    double squares = 0.0;
    for (std::size_t c = 0; c < at(p.d_v); ++c) squares += result.o[row + c] * result.o[row + c];
    const double divisor = std::sqrt(squares / static_cast<double>(p.d_v) + eps);
    for (std::size_t c = 0; c < at(p.d_v); ++c) result.o[row + c] /= divisor;
  }
}

}  // namespace fovea::reference
