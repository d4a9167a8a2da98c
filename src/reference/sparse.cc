#include "reference/sparse.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "reference/random.h"

namespace fovea::reference {
namespace {

// A row of one head with keys of zero score and zero value besides.
void add_zero_keys(Result& result, const Problem& p, std::int64_t row, double count) {
  const double lse = result.lse[at(row)], whole = lse == -kInfinity ? std::log(count) : std::log(std::exp(lse) + count);
  const double share = lse == -kInfinity ? 0.0 : std::exp(lse - whole);
  for (std::int64_t c = 0; c < p.d_v; ++c) result.o[at(row * p.d_v + c)] *= share;
  result.lse[at(row)] = whole;
}

}  // namespace

Result sparse(const Problem& given, const Reads& reads) {
  Problem p = given;
  p.bias = [&](std::int64_t head, std::int64_t i, std::int64_t j) {
    if (!reads(head, given.position(i), j)) return -kInfinity;
    return given.bias ? given.bias(head, i, j) : 0.0;
  };
  return pairwise(p, Weights::softmax);
}

bool reads_steps(std::int64_t query, std::int64_t key, const Steps& steps) {
  const std::int64_t distance = query - key;
  return distance % steps.dilation == 0 && distance / steps.dilation <= steps.left &&
         -distance / steps.dilation <= steps.right;
}

bool reads_strided(std::int64_t query, std::int64_t key, std::int64_t stride, std::int64_t local) {
  const std::int64_t distance = std::abs(query - key);
  return distance < local || distance % stride == 0;
}

bool reads_fixed(std::int64_t query, std::int64_t key, std::int64_t block, std::int64_t summary) {
  return floor_div(query, block) == key / block || key % block >= block - summary;
}

bool reads_log(std::int64_t query, std::int64_t key, std::int64_t restart) {
  const auto is_power = [](std::int64_t x) { return x > 0 && (x & (x - 1)) == 0; };
  const std::int64_t distance = std::abs(query - key);
  if (distance == 0) return true;
  if (restart == 0) return is_power(distance);
  std::int64_t cells = 0;  // ceil(log2 restart)
  while ((std::int64_t{1} << cells) < restart) ++cells;
  for (std::int64_t base = 0; base <= distance; base += restart) {
    const std::int64_t far = distance - base;
    if (far < cells) return true;
    const std::int64_t power = far - (cells - 1);
    if (is_power(power) && power < (std::int64_t{1} << cells) && far <= restart) return true;
  }
  return false;
}

Result star(const Problem& p, Ring ring) {
  const std::int64_t last = p.n_k - 1;
  Result result = sparse(p, [&](std::int64_t, std::int64_t query, std::int64_t key) {
    const bool wraps = (query == 1 && key == last) || (query == last && key == 1);
    return query == 0 || key == 0 || std::abs(query - key) <= 1 || (ring == Ring::closed && !p.causal && wraps);
  });
  for (std::int64_t i = 0; ring == Ring::zero && i < p.n_q; ++i) {
    const std::int64_t query = p.position(i);
    const double missing = (query == 1 ? 1.0 : 0.0) + (query == last && query > 0 && !p.causal ? 1.0 : 0.0);
    for (std::int64_t h = 0; missing > 0.0 && h < p.heads; ++h) add_zero_keys(result, p, i * p.heads + h, missing);
  }
  return result;
}

namespace {

// x (n, width) W (width, out).
std::vector<double> project(const Problem& p, const std::vector<double>& weight) {
  const std::int64_t out = static_cast<std::int64_t>(weight.size()) / p.width;
  std::vector<double> y(at(p.n_k * out), 0.0);
  for (std::int64_t i = 0; i < p.n_k; ++i)
    for (std::int64_t a = 0; a < p.width; ++a)
      for (std::int64_t c = 0; c < out; ++c)
        y[at(i * out + c)] += p.input[at(i * p.width + a)] * weight[at(a * out + c)];
  return y;
}

}  // namespace

Result longformer(const Problem& p, const Longformer& settings) {
  const Steps steps{settings.window, settings.window, settings.dilation};
  const std::int64_t globals = settings.globals;
  Result result = sparse(p, [&](std::int64_t, std::int64_t query, std::int64_t key) {
    return key < globals || (query >= 0 && query < globals) || reads_steps(query, key, steps);
  });
  if (!settings.own_projections || globals == 0) return result;
  Problem own = p;
  own.kv_heads = p.heads;
  own.q = project(p, p.weights[0]);
  own.k = project(p, p.weights[1]);
  own.v = project(p, p.weights[2]);
  const Result full = pairwise(own, Weights::softmax);
  const std::int64_t rows = std::min(globals, p.n_q) * p.heads;
  std::copy_n(full.o.begin(), rows * p.d_v, result.o.begin());
  return result;
}

namespace {

// Joins learned keys (tokens, heads, d_k) and values (tokens, heads, d_v) to the rows.
void join_tokens(const Problem& p, Result& result) {
  const std::int64_t tokens = static_cast<std::int64_t>(p.weights[0].size()) / (p.heads * p.d_k);
  const double scale = scale_of(p);
  for (std::int64_t row = 0; row < p.n_q * p.heads; ++row) {
    const std::int64_t i = row / p.heads, h = row % p.heads;
    std::vector<double> scores;
    for (std::int64_t t = 0; t < tokens; ++t) {
      double score = 0.0;
      for (std::int64_t c = 0; c < p.d_k; ++c)
        score += scale * p.query(i, h)[c] * p.weights[0][at((t * p.heads + h) * p.d_k + c)];
      scores.push_back(score);
    }
    const double before = result.lse[at(row)];
    double top = before, sum = 0.0;
    for (const double s : scores) top = std::max(top, s);
    for (const double s : scores) sum += std::exp(s - top);
    const double whole = top + std::log(sum + std::exp(before - top));
    for (std::int64_t c = 0; c < p.d_v; ++c) {
      double& o = result.o[at(row * p.d_v + c)];
      o *= std::exp(before - whole);
      for (std::int64_t t = 0; t < tokens; ++t)
        o += std::exp(scores[at(t)] - whole) * p.weights[1][at((t * p.heads + h) * p.d_v + c)];
    }
    result.lse[at(row)] = whole;
  }
}

}  // namespace

namespace {

// Whether block `row` of queries reads block `column` of keys without a draw.
bool reads_anyway(const Problem& p, const BigBird& settings, std::int64_t row, std::int64_t column) {
  const std::int64_t last = (p.n_k + settings.block - 1) / settings.block - 1;
  if (std::abs(row - column) <= 1) return true;
  if (settings.extended) return false;
  return column == 0 || (!p.causal && (row == 0 || row == last || column == last));
}

// Floyd's way to draw a set: of the first n candidates, n growing to all, one each, or the n-th where it is in already.
std::vector<std::int64_t> drawn_blocks(const Problem& p, const BigBird& settings, std::int64_t head, std::int64_t row) {
  std::vector<std::int64_t> candidates, drawn;
  for (std::int64_t c = 0; c < (p.causal ? row : (p.n_k + settings.block - 1) / settings.block); ++c)
    if (!reads_anyway(p, settings, row, c)) candidates.push_back(c);
  Draw draw(settings.seed * 0x9E3779B97F4A7C15 + static_cast<std::uint64_t>(p.layer),
            static_cast<std::uint64_t>(head) << 32 | static_cast<std::uint64_t>(row));
  const std::int64_t all = std::ssize(candidates);
  for (std::int64_t n = std::max<std::int64_t>(0, all - settings.random) + 1; n <= all; ++n) {
    const std::int64_t pick = candidates[at(draw.below(n))];
    drawn.push_back(std::find(drawn.begin(), drawn.end(), pick) == drawn.end() ? pick : candidates[at(n - 1)]);
  }
  return drawn;
}

}  // namespace

Result bigbird(const Problem& p, const BigBird& settings) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> drawn;  // of a head and a row of blocks
  Result result = sparse(p, [&](std::int64_t head, std::int64_t query, std::int64_t key) {
    if (query < 0) return false;
    const std::int64_t row = query / settings.block, column = key / settings.block;
    if (reads_anyway(p, settings, row, column)) return true;
    const auto [found, fresh] = drawn.try_emplace({head, row});
    if (fresh) found->second = drawn_blocks(p, settings, head, row);
    return std::find(found->second.begin(), found->second.end(), column) != found->second.end();
  });
  if (settings.extended) join_tokens(p, result);
  return result;
}

namespace {

// The given weights of query position i on n keys, pattern 0 to 6; -1 rows are empty.
std::vector<double> given_row(std::int64_t pattern, std::int64_t i, std::int64_t n, Edge edge) {
  std::vector<double> w(at(n), 0.0);
  const auto cube = [](std::int64_t x) {
    return static_cast<double>(x) * static_cast<double>(x) * static_cast<double>(x);
  };
  for (std::int64_t j = 0; j < n; ++j) {
    if (pattern == 0) w[at(j)] = j == i;
    if (pattern == 1) w[at(j)] = j == i - 1;
    if (pattern == 2) w[at(j)] = j == i + 1;
    if (pattern == 3) w[at(j)] = j <= i - 2 ? cube(j + 1) : 0.0;
    if (pattern == 4) w[at(j)] = j >= i + 2 ? cube(n - j) : 0.0;
    if (pattern == 5) w[at(j)] = cube(j + 1);
    if (pattern == 6) w[at(j)] = cube(n - j);
  }
  double sum = 0.0;
  for (const double x : w) sum += x;
  if (sum == 0.0 && edge != Edge::zero) w[at(edge == Edge::self ? i : 0)] = sum = 1.0;
  for (double& x : w) x = sum > 0.0 ? x / sum : 0.0;
  return w;
}

}  // namespace

Result fixed_encoder(const Problem& p, std::int64_t most, Edge edge) {
  constexpr std::int64_t kCausal[] = {0, 1, 3};  // current, previous, left context
  const std::int64_t given = std::min({most, p.heads - 1, p.causal ? std::ssize(kCausal) : std::ptrdiff_t{7}});
  Result result = pairwise(p, Weights::softmax);
  for (std::int64_t i = 0; i < p.n_q; ++i)
    for (std::int64_t h = 0; h < given; ++h) {
      double* o = &result.o[at((i * p.heads + h) * p.d_v)];
      std::fill_n(o, p.d_v, 0.0);
      if (p.position(i) < 0) continue;
      const std::vector<double> w = given_row(p.causal ? kCausal[h] : h, p.position(i), p.n_k, edge);
      for (std::int64_t j = 0; j < p.n_k; ++j)
        for (std::int64_t c = 0; w[at(j)] != 0.0 && c < p.d_v; ++c) o[c] += w[at(j)] * p.value(j, p.kv_head(h))[c];
    }
  return result;
}

}  // namespace fovea::reference
