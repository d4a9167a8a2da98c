#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "reference/attention.h"

// Matrices of doubles, for definitions that are products of matrices of one head.
namespace fovea::reference {

struct Matrix {
  Matrix(std::int64_t rows, std::int64_t columns, double fill = 0.0)
      : rows(rows), columns(columns), x(static_cast<std::size_t>(rows * columns), fill) {}

  double& operator()(std::int64_t i, std::int64_t j) { return x[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return x[static_cast<std::size_t>(i * columns + j)]; }

  std::int64_t rows, columns;
  std::vector<double> x;
};

inline Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

inline Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

inline Matrix operator*(double factor, Matrix a) {
  for (double& value : a.x) value *= factor;
  return a;
}

inline Matrix operator+(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.x.size(); ++i) a.x[i] += b.x[i];
  return a;
}

inline Matrix identity(std::int64_t n) {
  Matrix e(n, n);
  for (std::int64_t i = 0; i < n; ++i) e(i, i) = 1.0;
  return e;
}

inline Matrix stacked(const Matrix& a, const Matrix& b) {
  Matrix both(a.rows + b.rows, a.columns);
  std::copy(b.x.begin(), b.x.end(), std::copy(a.x.begin(), a.x.end(), both.x.begin()));
  return both;
}

// exp(x - largest) and its sum for a row; a row of -inf gives zeros.
inline double log_sum_exp(const Matrix& a, std::int64_t row) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (std::int64_t j = 0; j < a.columns; ++j) top = std::fmax(top, a(row, j));
  if (!std::isfinite(top)) return top;
  for (std::int64_t j = 0; j < a.columns; ++j) sum += std::exp(a(row, j) - top);
  return top + std::log(sum);
}

inline Matrix softmax_rows(Matrix a) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (std::int64_t j = 0; j < a.columns; ++j) top = std::fmax(top, a(i, j));
    for (std::int64_t j = 0; j < a.columns; ++j) sum += a(i, j) = std::isfinite(top) ? std::exp(a(i, j) - top) : 0.0;
    for (std::int64_t j = 0; j < a.columns; ++j) a(i, j) /= sum > 0.0 ? sum : 1.0;
  }
  return a;
}

// (x - mean) / sqrt(variance + eps) of every row. Of equal entries exactly 0: the second mean is what the first lost.
inline Matrix layer_norm_rows(Matrix a, double eps) {
  const auto width = static_cast<double>(a.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    double mean = 0.0, rest = 0.0, variance = 0.0;
    for (std::int64_t j = 0; j < a.columns; ++j) mean += a(i, j) / width;
    for (std::int64_t j = 0; j < a.columns; ++j) rest += (a(i, j) - mean) / width;
    mean += rest;
    for (std::int64_t j = 0; j < a.columns; ++j) variance += (a(i, j) - mean) * (a(i, j) - mean) / width;
    for (std::int64_t j = 0; j < a.columns; ++j) a(i, j) = (a(i, j) - mean) / std::sqrt(variance + eps);
  }
  return a;
}

// q, k, v of query head h, with rotary positions where the problem has them.
inline Matrix queries_of(const Problem& p, std::int64_t h) {
  Matrix q(p.n_q, p.d_k);
  for (std::int64_t i = 0; i < p.n_q; ++i) {
    std::copy_n(p.query(i, h), p.d_k, &q(i, 0));
    if (p.rotate) p.rotate(&q(i, 0), p.d_k, p.position(i));
  }
  return q;
}
inline Matrix keys_of(const Problem& p, std::int64_t h) {
  Matrix k(p.n_k, p.d_k);
  for (std::int64_t j = 0; j < p.n_k; ++j) {
    std::copy_n(p.key(j, p.kv_head(h)), p.d_k, &k(j, 0));
    if (p.rotate) p.rotate(&k(j, 0), p.d_k, j);
  }
  return k;
}
inline Matrix values_of(const Problem& p, std::int64_t h) {
  Matrix v(p.n_k, p.d_v);
  for (std::int64_t j = 0; j < p.n_k; ++j) std::copy_n(p.value(j, p.kv_head(h)), p.d_v, &v(j, 0));
  return v;
}

// The result whose head h is head(h), (n_q, d_v); all zero where there is no key.
template <class Head>
Result by_heads(const Problem& p, Head&& head) {
  Result out;
  out.o.assign(static_cast<std::size_t>(p.n_q * p.heads * p.d_v), 0.0);
  if (p.n_q == 0 || p.n_k == 0) return out;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const Matrix o = head(h);
    for (std::int64_t i = 0; i < p.n_q; ++i)
      std::copy_n(&o.x[static_cast<std::size_t>(i * p.d_v)], p.d_v,
                  &out.o[static_cast<std::size_t>((i * p.heads + h) * p.d_v)]);
  }
  return out;
}

}  // namespace fovea::reference
