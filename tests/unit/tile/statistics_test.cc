// What forward finds out of rows on its way, and tiles of weights, against plain loops in double: every kind of pattern
// and modifier, at sizes that divide nothing, on every instruction set.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "attention_case.h"
#include "core/isa.h"
#include "fovea/error.h"
#include "support/names.h"
#include "tile/row_statistics.h"
#include "tile/score_rows.h"

namespace fovea::tile::testing {
namespace {

constexpr std::int64_t kTop = 5;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A case whose key j has a 1 in channel j of its values and zeros elsewhere: outputs are rows of weights.
AttentionCase unit_case(Options options) {
  options.d_v = std::max<std::int64_t>(1, options.n_k);
  AttentionCase c(options);
  Field& v = c.arrays().v;
  std::fill(v.values.begin(), v.values.end(), 0.0);
  for (std::int64_t b = 0; b < options.batch; ++b)
    for (std::int64_t h = 0; h < options.kv_heads; ++h)
      for (std::int64_t j = 0; j < options.n_k; ++j) v.at(b, j, h, j) = 1.0;
  v.store();
  return c;
}

// Weights, (batch, n_q, heads, n_k), and log-sum-exp as they are defined, before dropout.
struct Defined {
  Arrays arrays;

  explicit Defined(Options options) : arrays(unit_case(without_dropout(options)).reference()) {}
  static Options without_dropout(Options options) {
    options.dropout = 0.0f;
    return options;
  }
  double weight(std::int64_t b, std::int64_t q, std::int64_t h, std::int64_t k) const {
    return arrays.o.at(b, q, h, k);
  }
  double score(std::int64_t b, std::int64_t q, std::int64_t h, std::int64_t k) const {
    return arrays.lse.at(b, q, h) + std::log(weight(b, q, h, k));
  }
};

// Forward with statistics, and the arrays of these.
struct Measured {
  AttentionCase attention;
  Field entropy, scores;
  std::vector<std::int32_t> keys;

  Measured(const Options& options, int threads) : attention(unit_case(options)) {
    const Options& o = attention.options();
    const DType wide = o.dtype == DType::f64 ? DType::f64 : DType::f32;
    entropy = Field::make(o, o.n_q, o.heads, 1, wide);
    scores = Field::make(o, o.n_q, o.heads, kTop, wide);
    keys.assign(scores.values.size(), -7);
    const Context context({.threads = threads, .memory = {.poison = true}});
    run(context);
    Arrays& a = attention.arrays();
    for (Field* field : {&a.o, &a.lse, &entropy, &scores}) field->load();
  }

  void run(const Context& context) { forward_measured(context, attention.problem(), io(), statistics()); }
  Forward io() {
    Arrays& a = attention.arrays();
    return {a.q.in(), a.k.in(), a.v.in(), a.o.out(), a.lse.out()};
  }
  RowStatistics statistics() {
    const Out top = scores.out();
    return {kTop, entropy.out(), {keys.data(), top.batch, top.row, top.head}, top};
  }
};

double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-12 : 3e-5; }

void check_row(const Measured& m, const Defined& defined, const Piece& piece, std::int64_t head, std::int64_t i) {
  const std::int64_t q = piece.query_row(i), b = piece.batch;
  const double limit = tolerance(m.attention.options().dtype) * m.attention.options().tolerance;
  double entropy = 0.0;
  std::vector<double> sorted;
  for (std::int64_t j = 0; j < piece.nk; ++j) {
    const double p = defined.weight(b, q, head, piece.key_row(j));
    if (p > 0.0) sorted.push_back(defined.score(b, q, head, piece.key_row(j)));
    entropy -= p > 0.0 ? p * std::log(p) : 0.0;
  }
  if (sorted.empty())
    EXPECT_TRUE(std::isnan(m.entropy.at(b, q, head)));
  else
    EXPECT_NEAR(m.entropy.at(b, q, head), entropy, limit);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.resize(at(std::max(std::ssize(sorted), kTop)), -INFINITY);
  std::vector<std::int32_t> seen;
  for (std::int64_t t = 0; t < kTop; ++t) {
    const std::int32_t key = m.keys[m.scores.index(b, q, head, t)];
    const double score = m.scores.at(b, q, head, t);
    if (std::isinf(sorted[at(t)])) {
      EXPECT_EQ(key, -1);
      EXPECT_EQ(score, -INFINITY);
      continue;
    }
    ASSERT_GE(key, 0);
    EXPECT_NEAR(score, sorted[at(t)], limit);
    EXPECT_NEAR(defined.score(b, q, head, key), score, limit);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), key), 0);
    seen.push_back(key);
  }
}

// Adds up tiles into whole rows: (batch, n_q, heads, n_k).
struct WholeMap final : TileVisitor {
  explicit WholeMap(const Options& o) : options(o), weights(at(o.batch * o.n_q * o.heads * o.n_k), 0.0) {}

  double& weight(std::int64_t b, std::int64_t q, std::int64_t h, std::int64_t k) {
    return weights[at(((b * options.n_q + q) * options.heads + h) * options.n_k + k)];
  }
  void visit(const WeightTile& tile, std::int64_t share) override {
    for (std::int64_t j = 0; j < tile.keys; ++j)
      for (std::int64_t l = 0; l < tile.lanes; ++l) {
        const float w = tile.weights[j * tile.lanes + l];
        if (l >= tile.queries) {
          EXPECT_EQ(w, 0.0f);
          continue;
        }
        const std::int64_t row = tile.piece->query_row(tile.query + l);
        EXPECT_EQ(share, tile.piece->query_row(tile.query) / 16);
        weight(tile.piece->batch, row, tile.head, tile.piece->key_row(tile.key + j)) += w;
      }
  }

  const Options& options;
  std::vector<double> weights;
};

void visit_tiles(const AttentionCase& c, int threads, TileVisitor& visitor) {
  const Context context({.threads = threads, .memory = {.poison = true}});
  visit_weight_tiles(context, c.problem(), {c.arrays().q.in(), c.arrays().k.in(), c.arrays().lse.in()},
                     {.rows_per_share = 16}, visitor);
}

std::vector<Options> patterns() {
  std::vector<Options> list;
  const auto add = [&](std::string name, Pattern pattern, Options o = {}) {
    o.name = std::move(name);
    o.pattern = std::move(pattern);
    list.push_back(std::move(o));
  };
  const auto square = [](std::int64_t n) { return Options{.n_q = n, .n_k = n}; };
  add("full", Pattern::full());
  add("causal", Pattern::causal(), square(70));
  add("window", Pattern::window(5, 3), square(71));
  add("wide_window", Pattern::window(30, -1), square(90));
  add("diagonal", Pattern::block_diagonal(10), square(75));
  add("box", Pattern::box({3, 20, 5, 40}), square(45));  // most rows are empty
  add("comb", Pattern::comb(7, 2, 4), square(60));
  add("distances", Pattern::distances({0, 1, 2, 4, 8, 16, 32}), square(64));
  add("blocks", Pattern::blocks(8, {{0, 3}, {1}, {}, {0, 1, 2}, {4}}), square(40));
  add("predicate", Pattern::predicate("odd", [](std::int64_t q, std::int64_t k) { return (q * 7 + k * 3) % 5 < 2; }));
  add("composed", Pattern::causal() & (Pattern::window(4, 0) | Pattern::block_diagonal(12)), square(50));
  add("more_keys", Pattern::causal(), {.n_q = 19, .n_k = 50});
  add("more_queries", Pattern::causal(), {.n_q = 50, .n_k = 19});
  add("few_keys", Pattern::full(), {.n_q = 50, .n_k = 3});
  add("no_keys", Pattern::full(), {.n_k = 0});
  add("no_queries", Pattern::full(), {.n_q = 0});
  add("one_pair", Pattern::full(), {.n_q = 1, .n_k = 1, .d_k = 1, .d_v = 1});
  add("wide_tiles", Pattern::causal(), {.n_q = 300, .n_k = 310, .tile = {128, 128}});
  add("many_units", Pattern::full(), {.batch = 5, .n_q = 23, .n_k = 31, .heads = 4, .kv_heads = 4});
  add("few_queries", Pattern::causal(), {.batch = 3, .n_q = 21, .n_k = 403});
  add("usual", Pattern::causal(), {.n_q = 333, .n_k = 333, .heads = 1, .kv_heads = 1, .usual_tiles = true});
  return list;
}

std::vector<Options> modifiers() {
  std::vector<Options> list;
  const auto add = [&](const char* name, Options o) {
    o.name = name;
    list.push_back(std::move(o));
  };
  add("grouped", {.n_q = 45, .n_k = 45, .heads = 6, .kv_heads = 2, .pattern = Pattern::causal()});
  add("heads_first", {.batch = 2, .heads = 4, .kv_heads = 4, .heads_first = true});
  add("alibi", {.n_q = 20, .alibi = true});
  add("dropout", {.batch = 2, .n_q = 35, .dropout = 0.3f});  // statistics are of what dropout is done to
  add("bias", {.batch = 2, .bias = Bias::dense});
  add("bias_hides", {.heads = 4, .pattern = Pattern::causal(), .bias = Bias::keys_only, .bias_hides = true});
  add("bias_hides_rows", {.heads = 4, .bias = Bias::queries_only, .bias_hides = true});
  Options packed{.n_q = 60, .n_k = 60, .pattern = Pattern::causal(), .alibi = true};
  packed.pieces = {{0, 0, 7, 0, 7}, {0, 7, 0, 7, 0}, {0, 7, 40, 7, 40}, {0, 47, 13, 47, 13}};
  add("packed", packed);
  Options lengths{.batch = 3, .n_q = 40, .n_k = 44};
  lengths.pieces = {{0, 0, 40, 0, 17}, {1, 0, 13, 0, 44}, {2, 0, 22, 0, 0}};
  add("lengths", lengths);
  add("steps", {.n_q = 47, .n_k = 52, .heads = 4, .pattern = Pattern::causal(), .alibi = true, .step = 3});
  Options strides{.n_q = 100, .n_k = 40};
  strides.pieces = {{0, 3, 13, 0, 40, nullptr, 7, 1, -4}};
  add("steps_of_queries", strides);
  add("huge", {.d_k = 4, .size = 8.0, .tolerance = 30.0});
  return list;
}

std::vector<Options> all_options() {
  std::vector<Options> list = patterns(), out;
  for (Options& o : modifiers()) list.push_back(std::move(o));
  for (const Options& options : list)
    for (const DType dtype : {DType::f64, DType::f32}) {
      Options o = options;
      o.dtype = dtype;
      o.name += "_" + std::string(fovea::name_of(dtype));
      out.push_back(o);
    }
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Options o{.n_q = 70, .n_k = 77, .heads = 4, .d_k = 7, .d_v = 9, .pattern = Pattern::causal()};
    o.dtype = dtype;
    o.name = "half_" + std::string(fovea::name_of(dtype));
    out.push_back(o);
  }
  return out;
}

class RowStatisticsOf : public ::testing::TestWithParam<std::tuple<Isa, Options>> {
 protected:
  void SetUp() override { force_isa(std::get<0>(GetParam())); }
  void TearDown() override { force_isa(available_isas().back()); }
};

TEST_P(RowStatisticsOf, AgreeWithPlainLoops) {
  const Measured m(std::get<1>(GetParam()), 2);
  const Defined defined(std::get<1>(GetParam()));
  for (const Piece& piece : m.attention.options().pieces)
    for (std::int64_t h = 0; h < m.attention.options().heads; ++h)
      for (std::int64_t i = 0; i < piece.nq; ++i) check_row(m, defined, piece, h, i);
}

TEST_P(RowStatisticsOf, LeaveTheOutputAsItIs) {
  const Measured m(std::get<1>(GetParam()), 1);
  AttentionCase plain = unit_case(std::get<1>(GetParam()));
  const Context context({.threads = 2, .memory = {.poison = true}});
  plain.run_forward(context);
  EXPECT_EQ(plain.arrays().o.storage, m.attention.arrays().o.storage);
  EXPECT_EQ(plain.arrays().lse.storage, m.attention.arrays().lse.storage);
}

TEST_P(RowStatisticsOf, AreTheSameBitsOnAnyNumberOfThreads) {
  const Measured one(std::get<1>(GetParam()), 1), three(std::get<1>(GetParam()), 3);
  EXPECT_EQ(one.entropy.storage, three.entropy.storage);
  EXPECT_EQ(one.scores.storage, three.scores.storage);
  EXPECT_EQ(one.keys, three.keys);
}

TEST_P(RowStatisticsOf, HaveTilesOfTheSameWeights) {
  const Measured m(std::get<1>(GetParam()), 2);
  const Options& o = m.attention.options();
  WholeMap map(o);
  visit_tiles(m.attention, 2, map);
  const Defined defined(o);
  WholeMap expected(o);
  for (const Piece& piece : o.pieces)
    for (std::int64_t h = 0; h < o.heads; ++h)
      for (std::int64_t i = 0; i < piece.nq; ++i)
        for (std::int64_t j = 0; j < piece.nk; ++j) {
          const std::int64_t q = piece.query_row(i), k = piece.key_row(j);
          expected.weight(piece.batch, q, h, k) += defined.weight(piece.batch, q, h, k);
        }
  EXPECT_LT(difference(map.weights, expected.weights), 2e-5 * o.tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, RowStatisticsOf,
                         ::testing::Combine(::testing::ValuesIn(available_isas()), ::testing::ValuesIn(all_options())),
                         [](const auto& info) {
                           return test_name(std::string(name_of(std::get<0>(info.param))) + "_" +
                                            std::get<1>(info.param).name);
                         });

TEST(RowStatistics, OfRowsThatAreNoNumbersAreNone) {
  Measured m({.n_q = 40, .n_k = 45, .dtype = DType::f32}, 2);
  Arrays& a = m.attention.arrays();
  a.q.at(0, 17, 1, 3) = NAN;
  a.q.store();
  const Context context({.threads = 2});
  m.run(context);
  m.entropy.load();
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t h = 0; h < 2; ++h) {
      const bool bad = i == 17 && h == 1;
      EXPECT_EQ(std::isnan(m.entropy.at(0, i, h)), bad);
      EXPECT_EQ(m.keys[m.scores.index(0, i, h)] < 0, bad);
    }
  WholeMap map(m.attention.options());
  visit_tiles(m.attention, 1, map);
  for (std::int64_t j = 0; j < 45; ++j) EXPECT_EQ(map.weight(0, 17, 1, j), 0.0);
  for (const double w : map.weights) EXPECT_TRUE(std::isfinite(w));
}

// Of equal scores the earlier key comes first, whatever the tiles.
TEST(RowStatistics, KeepTheFirstOfEqualScores) {
  for (const TileSize tile : {TileSize{16, 16}, {32, 5}, {64, 64}}) {
    Measured m({.n_q = 20, .n_k = 90, .tile = tile, .dtype = DType::f32}, 2);
    for (double& x : m.attention.arrays().k.values) x = 0.25;
    m.attention.arrays().k.store();
    m.run(Context({.threads = 2}));
    for (std::size_t i = 0; i < m.keys.size(); ++i) EXPECT_EQ(m.keys[i], static_cast<std::int32_t>(i % kTop));
  }
}

TEST(RowStatistics, AreRefusedWhereThereAreNone) {
  Measured m({.n_q = 20, .n_k = 20}, 1);
  const Context context({.threads = 1});
  Problem problem = m.attention.problem();
  problem.weight = Weight::sigmoid;
  EXPECT_THROW(forward_measured(context, problem, m.io(), m.statistics()), Error);
  WholeMap map(m.attention.options());
  const Arrays& a = m.attention.arrays();
  EXPECT_THROW(visit_weight_tiles(context, problem, {a.q.in(), a.k.in(), a.lse.in()}, {}, map), Error);
  RowStatistics statistics = m.statistics();
  statistics.top_keys.data = nullptr;
  EXPECT_THROW(forward_measured(context, m.attention.problem(), m.io(), statistics), Error);
  statistics = m.statistics();
  statistics.top = 0;
  EXPECT_THROW(forward_measured(context, m.attention.problem(), m.io(), statistics), Error);
}

}  // namespace
}  // namespace fovea::tile::testing
