#include "reference/sinkhorn.h"

#include <algorithm>
#include <cmath>

#include "reference/row_rules.h"

namespace fovea::reference {
namespace {

using Grid = std::vector<std::vector<double>>;

// The mean of rows [begin, end) of head h of x (n, heads, d).
std::vector<double> mean_rows(const std::vector<double>& x, std::int64_t heads, std::int64_t d, std::int64_t h,
                              std::pair<std::int64_t, std::int64_t> rows) {
  std::vector<double> mean(at(d), 0.0);
  for (std::int64_t j = rows.first; j < rows.second; ++j)
    for (std::int64_t c = 0; c < d; ++c)
      mean[at(c)] += x[at((j * heads + h) * d + c)] / static_cast<double>(rows.second - rows.first);
  return mean;
}

// The rows that block u may know of itself when it chooses.
std::pair<std::int64_t, std::int64_t> known_rows(const Problem& p, std::int64_t block, std::int64_t u) {
  if (p.causal) return {0, u * block + 1};
  return {u * block, std::min(p.n_k, (u + 1) * block)};
}

Grid learned_scores(const Problem& p, std::int64_t block, std::int64_t h) {
  const std::int64_t blocks = (p.n_k + block - 1) / block;
  const std::vector<double>&first = p.weights[0], &first_bias = p.weights[1], &second = p.weights[2];
  const std::int64_t columns = static_cast<std::int64_t>(first_bias.size()), hidden = columns / p.heads,
                     most = static_cast<std::int64_t>(second.size()) / columns;
  Grid scores(at(blocks), std::vector<double>(at(blocks)));
  for (std::int64_t u = 0; u < blocks; ++u) {
    const std::vector<double> x = mean_rows(p.input, 1, p.width, 0, known_rows(p, block, u));
    for (std::int64_t c = h * hidden; c < (h + 1) * hidden; ++c) {
      double sum = first_bias[at(c)];
      for (std::int64_t a = 0; a < p.width; ++a) sum += x[at(a)] * first[at(a * columns + c)];
      for (std::int64_t v = 0; v < blocks; ++v) scores[at(u)][at(v)] += std::fmax(sum, 0.0) * second[at(c * most + v)];
    }
  }
  return scores;
}

Grid block_scores(const Problem& p, std::int64_t block, std::int64_t h) {
  const std::int64_t blocks = (p.n_k + block - 1) / block;
  Grid scores(at(blocks), std::vector<double>(at(blocks)));
  for (std::int64_t u = 0; u < blocks; ++u) {
    const std::vector<double> q = mean_rows(p.q, p.heads, p.d_k, h, known_rows(p, block, u));
    for (std::int64_t v = 0; v < blocks; ++v) {
      const std::vector<double> k =
          mean_rows(p.k, p.kv_heads, p.d_k, p.kv_head(h), {v * block, std::min(p.n_k, (v + 1) * block)});
      scores[at(u)][at(v)] = dot(q.data(), k.data(), p.d_k) / std::sqrt(static_cast<double>(p.d_k));
    }
  }
  return scores;
}

double log_sum_exp(const std::vector<double>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double value : x) sum += std::exp(value - top);
  return top + std::log(sum);
}

// Rows then columns, over and over, in logarithms.
Grid doubly_stochastic(Grid z, const Sorting& how) {
  const std::size_t n = z.size();
  for (auto& row : z)
    for (double& x : row) x /= how.temperature;
  for (std::int64_t k = 0; k < how.iterations; ++k) {
    for (auto& row : z) {
      const double sum = log_sum_exp(row);
      for (double& x : row) x -= sum;
    }
    for (std::size_t v = 0; v < n; ++v) {
      std::vector<double> column;
      for (const auto& row : z) column.push_back(row[v]);
      const double sum = log_sum_exp(column);
      for (auto& row : z) row[v] -= sum;
    }
  }
  for (auto& row : z)
    for (double& x : row) x = std::exp(x);
  return z;
}

// The pick-th mixture of every block: its best earlier block that was not picked before, times its share.
Grid routed(const Grid& scores, std::int64_t pick) {
  Grid out(scores.size(), std::vector<double>(scores.size(), 0.0));
  for (std::size_t u = 0; u < scores.size(); ++u) {
    Row row(scores[u].begin(), scores[u].begin() + static_cast<std::ptrdiff_t>(u));
    for (std::int64_t t = 0; t <= pick && !row.empty(); ++t) {
      const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      if (row[best] == -INFINITY) break;  // none is left
      if (t == pick) out[u][best] = softmax_weights(row)[best];
      row[best] = -INFINITY;
    }
  }
  return out;
}

// Row t of mixture u: sum over v of shares_uv x_(v block + t); rows behind the end are 0.
std::vector<double> mixed(const Problem& p, const std::vector<double>& x, const std::vector<double>& shares,
                          std::pair<std::int64_t, std::int64_t> row_and_block, std::int64_t g) {
  const std::int64_t d = static_cast<std::int64_t>(x.size()) / (p.n_k * p.kv_heads);
  std::vector<double> sum(at(d), 0.0);
  for (std::size_t v = 0; v < shares.size(); ++v) {
    const std::int64_t j = static_cast<std::int64_t>(v) * row_and_block.second + row_and_block.first;
    for (std::int64_t c = 0; c < d && j < p.n_k; ++c) sum[at(c)] += shares[v] * x[at((j * p.kv_heads + g) * d + c)];
  }
  return sum;
}

struct Keys {
  std::vector<std::vector<double>> keys, values;
};

// o of row i, head h += softmax over these keys.
void read(const Problem& p, const Keys& seen, std::int64_t i, std::int64_t h, Result& out) {
  Row scores;
  for (const auto& key : seen.keys) scores.push_back(scale_of(p) * dot(p.query(i, h), key.data(), p.d_k));
  const Row weights = softmax_weights(scores);
  for (std::size_t j = 0; j < weights.size(); ++j)
    for (std::int64_t c = 0; c < p.d_v; ++c)
      out.o[at((i * p.heads + h) * p.d_v + c)] += weights[j] * seen.values[j][at(c)];
}

// The mixtures that block u reads, one row of shares each.
Grid mixtures(const Problem& p, const Sorting& how, const Grid& scores, std::int64_t u) {
  Grid rows;
  if (p.causal && !how.masked) {
    for (std::int64_t t = 0; t < std::min(how.routes, u); ++t) rows.push_back(routed(scores, t)[at(u)]);
    return rows;
  }
  Grid open = scores;
  for (std::size_t w = 0; w < open.size(); ++w)
    for (std::size_t v = w + 1; v < open.size() && p.causal; ++v) open[w][v] = -INFINITY;
  const Grid sorted = doubly_stochastic(open, how);
  if (how.cut == 0) return {sorted[at(u)]};
  rows.assign(sorted.begin(),
              sorted.begin() + std::min<std::ptrdiff_t>(how.cut, static_cast<std::ptrdiff_t>(sorted.size())));
  return rows;
}

void attend_block(const Problem& p, const Sorting& how, const Grid& scores,
                  std::pair<std::int64_t, std::int64_t> block_of_head, Result& out) {
  const auto [u, h] = block_of_head;
  const std::int64_t block = std::min(how.block, p.n_k), g = p.kv_head(h), end = std::min(p.n_k, (u + 1) * block);
  Keys far;
  for (const std::vector<double>& shares : mixtures(p, how, scores, u))
    for (std::int64_t t = 0; t < block; ++t) {
      far.keys.push_back(mixed(p, p.k, shares, {t, block}, g));
      far.values.push_back(mixed(p, p.v, shares, {t, block}, g));
    }
  for (std::int64_t i = u * block; i < end; ++i) {
    Keys near;
    for (std::int64_t j = u * block; j < (p.causal ? i + 1 : end) && how.cut == 0; ++j) {
      near.keys.emplace_back(p.key(j, g), p.key(j, g) + p.d_k);
      near.values.emplace_back(p.value(j, g), p.value(j, g) + p.d_v);
    }
    if (how.sum) {
      read(p, near, i, h, out);
      near = {};
    }
    // Row t of a masked mixture holds the block's own row t.
    const std::ptrdiff_t last = p.causal && how.masked ? i - u * block + 1 : std::ssize(far.keys);
    near.keys.insert(near.keys.end(), far.keys.begin(), far.keys.begin() + last);
    near.values.insert(near.values.end(), far.values.begin(), far.values.begin() + last);
    read(p, near, i, h, out);
  }
}

}  // namespace

Result sinkhorn(const Problem& p, const Sorting& how) {
  Result out;
  out.o.assign(at(p.n_q * p.heads * p.d_v), 0.0);
  if (p.n_k == 0) return out;
  const std::int64_t block = std::min(how.block, p.n_k), blocks = (p.n_k + block - 1) / block;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const Grid scores = how.learned ? learned_scores(p, block, h) : block_scores(p, block, h);
    for (std::int64_t u = 0; u < blocks; ++u) attend_block(p, how, scores, {u, h}, out);
  }
  return out;
}

}  // namespace fovea::reference
