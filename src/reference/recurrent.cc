#include "reference/recurrent.h"

#include <cmath>
#include <map>

#include "reference/row_rules.h"

namespace fovea::reference {
namespace {

// A key and a value from anywhere, and the score of the query at hand with it.
struct Candidate {
  double score;
  std::vector<double> value;
};

// o of row i, head h: softmax over the candidates; without any it stays 0.
void read(const Problem& p, const std::vector<Candidate>& candidates, std::int64_t i, std::int64_t h, Result& out) {
  Row scores;
  for (const Candidate& c : candidates) scores.push_back(c.score);
  const Row weights = softmax_weights(scores);
  for (std::size_t j = 0; j < candidates.size(); ++j)
    for (std::int64_t c = 0; c < p.d_v; ++c)
      out.o[at((i * p.heads + h) * p.d_v + c)] += weights[j] * candidates[j].value[at(c)];
}

std::vector<double> row(const double* from, std::int64_t width) { return {from, from + width}; }

std::int64_t floor_to(std::int64_t x, std::int64_t step) { return (x >= 0 ? x : x - step + 1) / step * step; }

Result zeros(const Problem& p) {
  Result out;
  out.o.assign(at(p.n_q * p.heads * p.d_v), 0.0);
  return out;
}

// R_t = [sin(t w_m) | cos(t w_m)], w_m = 10000^(-2m / waves).
std::vector<double> waves_at(double t, std::int64_t waves) {
  std::vector<double> r(at(waves));
  for (std::int64_t m = 0; m < waves / 2; ++m) {
    const double angle = t * std::pow(10000.0, -2.0 * static_cast<double>(m) / static_cast<double>(waves));
    r[at(m)] = std::sin(angle);
    r[at(waves / 2 + m)] = std::cos(angle);
  }
  return r;
}

// W_r R_t of every head, (heads, d_k)
std::vector<double> position_keys(const Problem& p, std::int64_t distance) {
  const std::int64_t rows = p.heads * p.d_k, waves = static_cast<std::int64_t>(p.weights[2].size()) / rows;
  const std::vector<double> r = waves_at(static_cast<double>(distance), waves);
  std::vector<double> keys;
  for (std::int64_t c = 0; c < rows; ++c) keys.push_back(dot(&p.weights[2][at(c * waves)], r.data(), waves));
  return keys;
}

// (q_i + u) . k_j + (q_i + w) . W_r R_(i - j)
double relative_score(const Problem& p, const std::vector<double>& position, std::int64_t i, std::int64_t j,
                      std::int64_t h) {
  double score = 0.0;
  for (std::int64_t c = 0; c < p.d_k; ++c) {
    const double q = p.query(i, h)[c];
    score += (q + p.weights[0][at(h * p.d_k + c)]) * p.key(j, p.kv_head(h))[c];
    score += (q + p.weights[1][at(h * p.d_k + c)]) * position[at(h * p.d_k + c)];
  }
  return score;
}

}  // namespace

Result transformer_xl(const Problem& p, std::int64_t segment, std::int64_t memory) {
  Result out = zeros(p);
  std::map<std::int64_t, std::vector<double>> keys;  // by distance: few beside the pairs
  for (std::int64_t i = 0; i < p.n_q; ++i)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::int64_t begin = floor_to(p.position(i), segment);
      std::vector<Candidate> seen;
      for (std::int64_t j = 0; j < p.n_k; ++j)
        if (j >= begin - memory && j < begin + segment && (!p.causal || j <= p.position(i)) && p.position(i) >= 0) {
          std::vector<double>& key = keys[p.position(i) - j];
          if (key.empty()) key = position_keys(p, p.position(i) - j);
          seen.push_back({scale_of(p) * relative_score(p, key, i, j, h), row(p.value(j, p.kv_head(h)), p.d_v)});
        }
      read(p, seen, i, h, out);
    }
  return out;
}

namespace {

// Group t of `rate` rows of kv head g as one. x is k with weight 0, or v with weight 1.
std::vector<double> pooled(const Problem& p, const Compression& how, std::size_t weight, std::int64_t t,
                           std::int64_t g) {
  const std::vector<double>& x = weight == 0 ? p.k : p.v;
  const std::int64_t width = weight == 0 ? p.d_k : p.d_v;
  std::vector<double> out(at(width), how.pool == Compression::Pool::max ? -kInfinity : 0.0);
  for (std::int64_t r = 0; r < how.rate; ++r) {
    const double* row = &x[at(((t * how.rate + r) * p.kv_heads + g) * width)];
    for (std::int64_t c = 0; c < width; ++c) {
      if (how.pool == Compression::Pool::mean) out[at(c)] += row[c] / static_cast<double>(how.rate);
      if (how.pool == Compression::Pool::max) out[at(c)] = std::fmax(out[at(c)], row[c]);
      for (std::int64_t a = 0; a < width && how.pool == Compression::Pool::conv; ++a)
        out[at(c)] += row[a] * p.weights[weight][at(((g * how.rate + r) * width + a) * width + c)];
    }
  }
  return out;
}

}  // namespace

Result compressive(const Problem& p, const Compression& how) {
  Result out = zeros(p);
  for (std::int64_t i = 0; i < p.n_q; ++i) {
    if (p.position(i) < 0) continue;
    const std::int64_t begin = floor_to(p.position(i), how.segment);
    const std::int64_t groups = std::max<std::int64_t>(0, begin - how.memory) / how.rate, kept = groups * how.rate;
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::int64_t g = p.kv_head(h);
      std::vector<Candidate> seen;
      for (std::int64_t t = std::max<std::int64_t>(0, groups - how.slots); t < groups; ++t) {
        const std::vector<double> key = pooled(p, how, 0, t, g);
        seen.push_back({scale_of(p) * dot(p.query(i, h), key.data(), p.d_k), pooled(p, how, 1, t, g)});
      }
      for (std::int64_t j = kept; j < std::min(p.n_k, begin + how.segment); ++j)
        if (!p.causal || j <= p.position(i))
          seen.push_back({scale_of(p) * dot(p.query(i, h), p.key(j, g), p.d_k), row(p.value(j, g), p.d_v)});
      read(p, seen, i, h, out);
    }
  }
  return out;
}

Result memformer(const Problem& p, bool joint) {
  const std::int64_t slots = static_cast<std::int64_t>(p.weights[0].size()) / (p.heads * p.d_k);
  Result out = joint ? zeros(p) : pairwise(p, Weights::softmax);
  for (std::int64_t i = 0; i < p.n_q; ++i) {
    bool sees = false;
    for (std::int64_t j = 0; j < p.n_k; ++j) sees = sees || kept(p, i, j);
    if (!sees) continue;  // a row that sees no token reads no memory either
    for (std::int64_t h = 0; h < p.heads; ++h) {
      std::vector<Candidate> seen;
      for (std::int64_t m = 0; m < slots; ++m)
        seen.push_back({scale_of(p) * dot(p.query(i, h), &p.weights[0][at((m * p.heads + h) * p.d_k)], p.d_k),
                        row(&p.weights[1][at((m * p.heads + h) * p.d_v)], p.d_v)});
      for (std::int64_t j = 0; joint && j < p.n_k; ++j)
        if (!p.causal || j <= p.position(i))
          seen.push_back(
              {scale_of(p) * dot(p.query(i, h), p.key(j, p.kv_head(h)), p.d_k), row(p.value(j, p.kv_head(h)), p.d_v)});
      read(p, seen, i, h, out);
    }
  }
  return out;
}

}  // namespace fovea::reference
