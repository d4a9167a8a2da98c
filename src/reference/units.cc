#include "reference/units.h"

#include <complex>
#include <numbers>

#include "reference/matrix.h"

namespace fovea::reference {
namespace {

double dropped(const Problem& p, std::int64_t h, std::int64_t i, std::int64_t j) {
  return p.drop_factor ? p.drop_factor(h, i, j) : 1.0;
}

// gain x + shift with the given pair of weights[0] and weights[1], then rotated; `first` is the position of row 0.
Matrix scaled_copy(const Problem& p, Matrix x, std::int64_t pair, std::int64_t first) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t c = 0; c < p.d_k; ++c)
      x(i, c) = x(i, c) * p.weights[0][at(pair * p.d_k + c)] + p.weights[1][at(pair * p.d_k + c)];
    if (p.rotate) p.rotate(&x(i, 0), p.d_k, first + i);
  }
  return x;
}

Matrix plain_queries(const Problem& given, std::int64_t h) {
  Problem p = given;
  p.rotate = nullptr;
  return queries_of(p, h);
}
Matrix plain_keys(const Problem& given, std::int64_t h) {
  Problem p = given;
  p.rotate = nullptr;
  return keys_of(p, h);
}

double table_bias(const Problem& p, std::int64_t table, std::int64_t i, std::int64_t j) {
  const std::int64_t away = j - p.position(i);
  return std::abs(away) < table ? p.weights[2][at(away + table - 1)] : 0.0;
}

double relu2(double x) { return x > 0 ? x * x : 0.0; }

double dot(const Matrix& a, std::int64_t i, const Matrix& b, std::int64_t j) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < a.columns; ++c) sum += a(i, c) * b(j, c);
  return sum;
}

}  // namespace

Result flash_quad(const Problem& p, const FlashQuad& options) {
  const double divisor = options.divisor > 0.0 ? options.divisor : static_cast<double>(p.n_k);
  return by_heads(p, [&](std::int64_t h) {
    const Matrix q = scaled_copy(p, plain_queries(p, h), 0, p.position(0));
    const Matrix k = scaled_copy(p, plain_keys(p, h), 1, 0);
    Matrix weights(p.n_q, p.n_k);
    for (std::int64_t i = 0; i < p.n_q; ++i)
      for (std::int64_t j = 0; j < p.n_k; ++j) {
        if (!kept(p, i, j)) continue;
        const double bias = table_bias(p, options.table, i, j) / (options.scale_bias ? divisor : 1.0);
        weights(i, j) = relu2(dot(q, i, k, j) / divisor + bias) * dropped(p, h, i, j);
      }
    return weights * values_of(p, h);
  });
}

Result flash_gau(const Problem& p, const FlashGau& options) {
  const std::int64_t chunk = options.chunk;
  const auto far = static_cast<double>(options.by_length && !p.causal ? p.n_k : chunk);
  return by_heads(p, [&](std::int64_t h) {
    const Matrix zq = plain_queries(p, h), zk = plain_keys(p, h);
    const Matrix q = scaled_copy(p, zq, 0, 0), k = scaled_copy(p, zk, 1, 0);
    const Matrix far_q = scaled_copy(p, zq, 2, 0), far_k = scaled_copy(p, zk, 3, 0);
    Matrix weights(p.n_q, p.n_k);
    for (std::int64_t i = 0; i < p.n_q; ++i)
      for (std::int64_t j = 0; j < p.n_k; ++j) {
        const bool same = i / chunk == j / chunk;
        if (same && kept(p, i, j))
          weights(i, j) += relu2(dot(q, i, k, j) / static_cast<double>(chunk) + table_bias(p, chunk, i, j));
        if (!p.causal || j / chunk < i / chunk) weights(i, j) += dot(far_q, i, far_k, j) / far;
      }
    return weights * values_of(p, h);
  });
}

namespace {

// layer_norm(x) gain + shift
Matrix unit_rows(const Problem& p, const Matrix& x) {
  Matrix y = layer_norm_rows(x, 1e-5);
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t c = 0; c < y.columns; ++c) y(i, c) = y(i, c) * p.weights[0][at(c)] + p.weights[1][at(c)];
  return y;
}

Matrix sketched(const Problem& p, const Matrix& x, bool unbiased) {
  const std::int64_t features = static_cast<std::int64_t>(p.weights[2].size()) / p.d_k;
  const double root = std::sqrt(static_cast<double>(features)), factor = 1.0 / (unbiased ? std::sqrt(root) : root);
  Matrix s1(p.d_k, features), s2(p.d_k, features);
  s1.x = p.weights[2];
  s2.x = p.weights[3];
  Matrix a = factor * (x * s1);
  const Matrix b = factor * (x * s2);
  for (std::size_t i = 0; i < a.x.size(); ++i) a.x[i] *= b.x[i];
  return a;
}

}  // namespace

Result polysketch(const Problem& p, const PolySketch& options) {
  return by_heads(p, [&](std::int64_t h) {
    const Matrix q = unit_rows(p, queries_of(p, h)), k = unit_rows(p, keys_of(p, h));
    const Matrix sq = options.sketch ? sketched(p, q, options.unbiased) : q;
    const Matrix sk = options.sketch ? sketched(p, k, options.unbiased) : k;
    Matrix o(p.n_q, p.d_v);
    for (std::int64_t i = 0; i < p.n_q; ++i) {
      double total = 1.0;
      for (std::int64_t j = 0; j < p.n_k; ++j) {
        if (!kept(p, i, j)) continue;
        const bool exact = !options.sketch || (p.causal && i / options.block == j / options.block);
        const double weight = exact ? std::pow(dot(q, i, k, j), 4) : std::pow(dot(sq, i, sk, j), 2);
        total += weight;
        for (std::int64_t c = 0; c < p.d_v; ++c) o(i, c) += weight * p.value(j, p.kv_head(h))[c];
      }
      for (std::int64_t c = 0; c < p.d_v; ++c) o(i, c) /= total;
    }
    return o;
  });
}

namespace {

using Complex = std::complex<double>;

// The state space of one channel, by its recurrence x' = z x + u from 0.
struct Channel {
  std::vector<Complex> z, c;  // c of the discrete system

  std::vector<double> run(const std::vector<double>& u) const {
    std::vector<Complex> x(z.size());
    std::vector<double> y;
    for (const double value : u) {
      double sum = 0.0;
      for (std::size_t s = 0; s < z.size(); ++s) {
        x[s] = z[s] * x[s] + value;
        sum += 2.0 * (c[s] * x[s]).real();
      }
      y.push_back(sum);
    }
    return y;
  }
};

Channel channel_of(const Problem& p, std::int64_t states, std::int64_t channel, std::int64_t direction) {
  Channel out;
  const double dt = std::exp(p.weights[0][at(channel)] + std::log(1e-2));
  for (std::int64_t s = 0; s < states; ++s) {
    const std::int64_t i = channel * states + s, count = p.heads * p.d_v * states;
    const Complex a(-0.5 * std::exp(p.weights[1][at(i)]),
                    std::numbers::pi * static_cast<double>(s) + p.weights[2][at(i)]);
    const Complex c(p.weights[3][at(2 * (direction * count + i))], p.weights[3][at(2 * (direction * count + i) + 1)]);
    out.z.push_back(std::exp(dt * a));
    out.c.push_back(c * (out.z.back() - 1.0) / a);
  }
  return out;
}

}  // namespace

Result s4d(const Problem& p, std::int64_t states) {
  return by_heads(p, [&](std::int64_t h) {
    const Matrix v = values_of(p, h);
    Matrix o(p.n_q, p.d_v);
    for (std::int64_t c = 0; c < p.d_v; ++c) {
      const std::int64_t channel = h * p.d_v + c;
      std::vector<double> u, back;
      for (std::int64_t j = 0; j < p.n_k; ++j) u.push_back(v(j, c));
      back.assign(u.rbegin(), u.rend());
      const std::vector<double> forward = channel_of(p, states, channel, 0).run(u);
      const std::vector<double> backward = channel_of(p, states, channel, 1).run(back);
      for (std::int64_t i = 0; i < p.n_k; ++i) {
        o(i, c) = forward[at(i)] + p.weights[4][at(channel)] * u[at(i)];
        if (!p.causal && i + 1 < p.n_k) o(i, c) += backward[at(p.n_k - 2 - i)];  // the rows after i
      }
    }
    return o;
  });
}

}  // namespace fovea::reference
