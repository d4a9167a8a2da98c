#include "reference/low_rank.h"

#include <algorithm>

#include "reference/matrix.h"

namespace fovea::reference {
namespace {

// Means of `count` nearly equal segments of rows, the longer ones first.
Matrix segment_means(const Matrix& x, std::int64_t count) {
  Matrix means(count, x.columns);
  std::int64_t row = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t length = x.rows / count + (s < x.rows % count ? 1 : 0);
    for (std::int64_t i = 0; i < length; ++i, ++row)
      for (std::int64_t c = 0; c < x.columns; ++c) means(s, c) += x(row, c) / static_cast<double>(length);
  }
  return means;
}

// The steps of Newton and Schulz of order four, from A^T / (largest column sum).
Matrix iterated_inverse(const Matrix& a, std::int64_t steps) {
  double largest = 0.0;
  for (std::int64_t j = 0; j < a.columns; ++j) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < a.rows; ++i) sum += a(i, j);
    largest = std::fmax(largest, sum);
  }
  Matrix z = (1.0 / largest) * transposed(a);
  const Matrix one = identity(a.rows);
  for (std::int64_t s = 0; s < steps; ++s) {
    const Matrix az = a * z;
    z = 0.25 * (z * (13.0 * one + -1.0 * (az * (15.0 * one + -1.0 * (az * (7.0 * one + -1.0 * az))))));
  }
  return z;
}

double squared_distance(const Matrix& a, std::int64_t i, const Matrix& b, std::int64_t j) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < a.columns; ++c) sum += (a(i, c) - b(j, c)) * (a(i, c) - b(j, c));
  return sum;
}

Matrix gaussian_kernel(const Matrix& a, const Matrix& b, double scale) {
  Matrix g(a.rows, b.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.rows; ++j) g(i, j) = std::exp(-0.5 * scale * squared_distance(a, i, b, j));
  return g;
}

// E or F of a head, the first n columns.
Matrix compression(const Problem& p, const Linformer& options, std::size_t which, std::int64_t h) {
  const std::vector<double>& w = p.weights[std::min(which, p.weights.size() - 1)];
  const std::int64_t matrices = options.each_head ? p.kv_heads : 1;
  const std::int64_t most = static_cast<std::int64_t>(w.size()) / (matrices * options.slots);
  const std::int64_t first = options.each_head ? p.kv_head(h) * options.slots * most : 0;
  Matrix e(options.slots, p.n_k);
  for (std::int64_t s = 0; s < options.slots; ++s)
    for (std::int64_t j = 0; j < p.n_k; ++j) e(s, j) = w[at(first + s * most + j)];
  return e;
}

}  // namespace

Result linformer(const Problem& p, const Linformer& options) {
  return by_heads(p, [&](std::int64_t h) {
    const Matrix keys = compression(p, options, 0, h) * keys_of(p, h);
    const Matrix values = compression(p, options, 1, h) * values_of(p, h);
    Matrix weights = softmax_rows(scale_of(p) * (queries_of(p, h) * transposed(keys)));
    for (std::int64_t i = 0; p.drop_factor && i < p.n_q; ++i)
      for (std::int64_t s = 0; s < options.slots; ++s) weights(i, s) *= p.drop_factor(h, i, s);
    return weights * values;
  });
}

Result nystrom(const Problem& p, const Nystrom& options) {
  const auto mixed = [&](std::int64_t h) {
    const Matrix q = queries_of(p, h), k = keys_of(p, h), v = values_of(p, h);
    const double scale = scale_of(p);
    if (std::max(p.n_q, p.n_k) <= options.landmarks) return softmax_rows(scale * (q * transposed(k))) * v;
    const std::int64_t count = std::min({options.landmarks, p.n_q, p.n_k});
    const Matrix q_mean = segment_means(q, count), k_mean = segment_means(k, count);
    const Matrix near = softmax_rows(scale * (q * transposed(k_mean)));
    const Matrix middle = softmax_rows(scale * (q_mean * transposed(k_mean)));
    const Matrix far = softmax_rows(scale * (q_mean * transposed(k)));
    return near * (iterated_inverse(middle, options.steps) * (far * v));
  };
  return by_heads(p, [&](std::int64_t h) {
    Matrix o = mixed(h);
    const Matrix v = values_of(p, h);
    for (std::int64_t i = 0; i < p.n_q; ++i)
      for (std::int64_t t = 0; t < options.taps; ++t) {
        const std::int64_t j = i + t - options.taps / 2;
        if (j < 0 || j >= p.n_k) continue;
        for (std::int64_t c = 0; c < p.d_v; ++c) o(i, c) += p.weights[0][at(h * options.taps + t)] * v(j, c);
      }
    return o;
  });
}

Result gaussian(const Problem& given) {
  Problem p = given;
  const double scale = scale_of(p);
  const auto squares = [&](const double* x) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < p.d_k; ++c) sum += x[c] * x[c];
    return sum;
  };
  p.bias = [&given, scale, squares](std::int64_t h, std::int64_t i, std::int64_t j) {
    const double norms = squares(given.query(i, h)) + squares(given.key(j, given.kv_head(h)));
    return (given.bias ? given.bias(h, i, j) : 0.0) - 0.5 * scale * norms;
  };
  return pairwise(p, Weights::exp);
}

Result skyformer(const Problem& p, const Skyformer& options) {
  const auto count = static_cast<std::int64_t>(p.weights[0].size());
  const auto pick = [&](const Matrix& x, std::int64_t begin, std::int64_t end) {
    Matrix rows(end - begin, x.columns);
    for (std::int64_t i = begin; i < end; ++i) {
      const double place = (p.weights[0][at(i)] + 0.5) * static_cast<double>(x.rows);
      const std::int64_t row = std::min(x.rows - 1, static_cast<std::int64_t>(place));
      for (std::int64_t c = 0; c < x.columns; ++c) rows(i - begin, c) = x(row, c);
    }
    return rows;
  };
  return by_heads(p, [&](std::int64_t h) {
    const Matrix q = queries_of(p, h), k = keys_of(p, h);
    if (p.n_q + p.n_k <= count) return gaussian_kernel(q, k, scale_of(p)) * values_of(p, h);
    const Matrix marks = stacked(pick(q, 0, count / 2), pick(k, count / 2, count));
    const Matrix m = gaussian_kernel(marks, marks, scale_of(p)) + options.gamma * identity(count);
    Matrix roots(count, count);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < count; ++j) sum += m(i, j);
      roots(i, i) = 1.0 / std::sqrt(sum);
    }
    const Matrix inverse = roots * iterated_inverse(roots * m * roots, options.steps) * roots;
    return gaussian_kernel(q, marks, scale_of(p)) *
           (inverse * (gaussian_kernel(marks, k, scale_of(p)) * values_of(p, h)));
  });
}

namespace {

// Rows of all heads side by side, (n, heads width), each row normalised, and cut into heads again.
std::vector<Matrix> normalize_together(const std::vector<Matrix>& heads) {
  const std::int64_t width = heads[0].columns, count = static_cast<std::int64_t>(heads.size());
  Matrix wide(heads[0].rows, width * count);
  for (std::int64_t h = 0; h < count; ++h)
    for (std::int64_t i = 0; i < wide.rows; ++i)
      for (std::int64_t c = 0; c < width; ++c) wide(i, h * width + c) = heads[at(h)](i, c);
  const Matrix normal = layer_norm_rows(wide, 1e-5);
  std::vector<Matrix> out = heads;
  for (std::int64_t h = 0; h < count; ++h)
    for (std::int64_t i = 0; i < wide.rows; ++i)
      for (std::int64_t c = 0; c < width; ++c) out[at(h)](i, c) = normal(i, h * width + c);
  return out;
}

// What a head's chunks are compressed to: (chunks slots, width).
Matrix compressed(const Problem& p, const LongShort& options, const Matrix& x, std::int64_t h) {
  const std::int64_t length = options.chunk > 0 ? options.chunk : p.n_k, chunks = p.n_k / length;
  Matrix out(chunks * options.slots, x.columns);
  for (std::int64_t g = 0; g < chunks; ++g) {
    Matrix scores(options.slots, length);
    for (std::int64_t s = 0; s < options.slots; ++s)
      for (std::int64_t j = 0; j < length; ++j)
        for (std::int64_t c = 0; c < p.width; ++c)
          scores(s, j) += p.input[at((g * length + j) * p.width + c)] *
                          p.weights[0][at(c * p.heads * options.slots + h * options.slots + s)];
    const Matrix shares = softmax_rows(scores);
    for (std::int64_t s = 0; s < options.slots; ++s)
      for (std::int64_t j = 0; j < length; ++j)
        for (std::int64_t c = 0; c < x.columns; ++c)
          out(g * options.slots + s, c) += shares(s, j) * x(g * length + j, c);
  }
  return out;
}

bool near(const Problem& p, const LongShort& options, std::int64_t i, std::int64_t j) {
  const std::int64_t t = p.position(i), w = options.window;
  if (p.causal) return j <= t && j > t - w;
  const std::int64_t side = std::max<std::int64_t>(w / 2, 1), begin = floor_div(t, w) * w;
  return j >= begin - side && j < begin + w + side;
}

bool sees_slot(const Problem& p, const LongShort& options, std::int64_t i, std::int64_t slot) {
  return !p.causal || slot / options.slots < floor_div(p.position(i), options.chunk);
}

}  // namespace

Result long_short(const Problem& p, const LongShort& options) {
  if (p.n_q == 0 || p.n_k == 0) return by_heads(p, [&](std::int64_t) { return Matrix(p.n_q, p.d_v); });
  std::vector<Matrix> keys, values, far_keys, far_values;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    keys.push_back(keys_of(p, h));
    values.push_back(values_of(p, h));
  }
  const std::vector<Matrix> raw_keys = keys, raw_values = values;
  keys = normalize_together(keys);
  values = normalize_together(values);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    far_keys.push_back(compressed(p, options, (p.causal ? raw_keys : keys)[at(h)], h));
    far_values.push_back(compressed(p, options, (p.causal ? raw_values : values)[at(h)], h));
  }
  far_keys = normalize_together(far_keys);
  far_values = normalize_together(far_values);
  return by_heads(p, [&](std::int64_t h) {
    const std::int64_t slots = far_keys[at(h)].rows;
    const Matrix k = stacked(far_keys[at(h)], keys[at(h)]), v = stacked(far_values[at(h)], values[at(h)]);
    Matrix scores = scale_of(p) * (queries_of(p, h) * transposed(k));
    for (std::int64_t i = 0; i < p.n_q; ++i)
      for (std::int64_t j = 0; j < k.rows; ++j)
        if (!(j < slots ? sees_slot(p, options, i, j) : near(p, options, i, j - slots))) scores(i, j) = -kInfinity;
    return softmax_rows(scores) * v;
  });
}

namespace {

// layer_norm(x W + b) gain + shift
Matrix prepared(const Problem& p, const Matrix& x, std::size_t first) {
  Matrix w(x.columns, x.columns);
  w.x = p.weights[first];
  Matrix y = x * w;
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t c = 0; c < y.columns; ++c) y(i, c) += p.weights[first + 1][at(c)];
  y = layer_norm_rows(y, 1e-5);
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t c = 0; c < y.columns; ++c)
      y(i, c) = y(i, c) * p.weights[first + 2][at(c)] + p.weights[first + 3][at(c)];
  return y;
}

// log xi(x_j, omega_a): (omegas, rows of x)
Matrix log_xi(const Matrix& omega, const Matrix& x, double scale) {
  Matrix out = scale * (omega * transposed(x));
  for (std::int64_t j = 0; j < x.rows; ++j) {
    double squares = 0.0;
    for (std::int64_t c = 0; c < x.columns; ++c) squares += x(j, c) * x(j, c);
    for (std::int64_t a = 0; a < omega.rows; ++a) out(a, j) -= 0.5 * scale * squares;
  }
  return out;
}

// With more digits than a double, for differences of numbers near 1.
std::vector<long double> wide_softmax_rows(const Matrix& a) {
  std::vector<long double> out(a.x.begin(), a.x.end());
  for (auto row = out.begin(); row != out.end(); row += a.columns) {
    const long double top = *std::max_element(row, row + a.columns);
    long double sum = 0.0;
    for (auto x = row; x != row + a.columns; ++x) sum += * x = std::exp(*x - top);
    for (auto x = row; x != row + a.columns; ++x) *x /= sum;
  }
  return out;
}

// log alpha of the optimal proposals, (queries, landmarks)
Matrix log_alpha(const Matrix& q, const Matrix& q_mean, const Matrix& ell, double scale, double beta) {
  const std::int64_t count = q_mean.rows;
  const std::vector<long double> t = wide_softmax_rows(scale * (q_mean * transposed(q))),  // (landmarks, queries)
      shares = wide_softmax_rows(ell);
  Matrix out(q.rows, count);
  for (std::int64_t i = 0; i < q.rows; ++i) {
    long double mean = 0.0;
    for (std::int64_t a = 0; a < count; ++a) mean += t[at(a * q.rows + i)] / static_cast<long double>(count);
    for (std::int64_t a = 0; a < count; ++a) {
      const long double alpha = shares[at(a * count + a)] + beta * (t[at(a * q.rows + i)] - mean);
      out(i, a) = static_cast<double>(std::log(std::fmax(alpha, 1e-8L)));
    }
  }
  return out;
}

}  // namespace

Result lara(const Problem& p, const Lara& options) {
  return by_heads(p, [&](std::int64_t h) {
    const Matrix q = queries_of(p, h), k = keys_of(p, h);
    const double scale = scale_of(p);
    const std::int64_t count = std::min({options.landmarks, p.n_q, p.n_k});
    const Matrix q_mean = segment_means(options.learned ? prepared(p, q, 0) : q, count);
    const Matrix k_mean = segment_means(options.learned ? prepared(p, k, 4) : k, count);
    const Matrix mu = q_mean + k_mean;  // omega without noise
    const Matrix at_keys = log_xi(mu, k, scale), ell = log_xi(mu, mu, scale);
    const Matrix estimates = softmax_rows(at_keys) * values_of(p, h);
    const bool biased = options.proposals == Proposals::biased, optimal = options.proposals == Proposals::optimal;
    Matrix logits = (biased ? 2.0 : 1.0) * (scale * (q * transposed(mu)));
    if (optimal) logits = logits + log_alpha(q, q_mean, ell, scale, options.beta);
    for (std::int64_t i = 0; i < p.n_q; ++i)
      for (std::int64_t a = 0; a < count; ++a)
        logits(i, a) += log_sum_exp(at_keys, a) - (optimal ? ell(a, a) : log_sum_exp(ell, a));
    return softmax_rows(logits) * estimates;
  });
}

}  // namespace fovea::reference
