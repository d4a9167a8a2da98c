// Statistics and rectangles that a card makes of the rows of a map, against plain loops in double over the whole map.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "gpu/tile/device_case.h"
#include "inspect/cuda/map_sums.h"
#include "inspect/windows.h"

namespace fovea::inspection {
namespace {

using tile::Weight;
using tile::testing::AttentionCase, tile::testing::Mirror, tile::testing::Options;

struct Setting {
  std::string name;
  Options options;
  RowRecipe recipe = {};
  std::int64_t row_bytes = std::int64_t{64} << 20;
  double log_decay = 0.0;  // of features
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

// A map by its definition: weights of a head, (n_q, n_k), by place.
class PlainMap {
 public:
  PlainMap(const AttentionCase& c, const Setting& setting) : c_(c), setting_(setting) {
    const Options& o = c.options();
    for (std::int64_t h = 0; h < o.heads; ++h) {
      weights.emplace_back(size(o.n_q * o.n_k), 0.0);
      logits.emplace_back(size(o.n_q), -INFINITY);
      for (const tile::Piece& piece : o.pieces)
        for (std::int64_t i = 0; i < piece.nq; ++i) add_row(piece, h, i);
    }
  }

  std::vector<std::vector<double>> weights, logits;  // by head

  // Divided by the sum of its magnitudes; 0 where that is no number.
  std::vector<double> shares(std::int64_t head, std::int64_t row) const {
    const std::int64_t n_k = c_.options().n_k;
    const auto first = weights[size(head)].begin() + row * n_k;
    std::vector<double> out(first, first + n_k);
    const double sum = row_sum(head, row);
    for (double& x : out) x = std::isfinite(sum) && sum > 0.0 ? x / sum : 0.0;
    return out;
  }
  double row_sum(std::int64_t head, std::int64_t row) const {
    double sum = 0.0;
    for (std::int64_t j = 0; j < c_.options().n_k; ++j)
      sum += std::abs(weights[size(head)][size(row * c_.options().n_k + j)]);
    return sum;
  }

 private:
  void add_row(const tile::Piece& piece, std::int64_t h, std::int64_t i) {
    const Options& o = c_.options();
    const auto row = c_.weigh_row(piece, h, i);
    const std::int64_t place = piece.query_row(i);
    std::vector<double> w = row.weight;
    if (std::ranges::any_of(row.score, [](double s) { return std::isnan(s); })) std::ranges::fill(w, NAN);
    if (setting_.recipe.features) w = of_features(row.score, piece, place);
    if (setting_.recipe.quotient) {
      const double sum = std::accumulate(w.begin(), w.end(), 0.0);
      for (double& x : w) x /= sum;
    }
    for (std::int64_t j = 0; j < piece.nk; ++j) {
      double& logit = logits[size(h)][size(place)];
      logit = std::max(logit, row.score[size(j)]);
      weights[size(h)][size(place * o.n_k + piece.key_row(j))] = w[size(j)];
    }
  }
  std::vector<double> of_features(const std::vector<double>& products, const tile::Piece& piece,
                                  std::int64_t place) const {
    const Options& o = c_.options();
    std::vector<double> w;
    double sum = 0.0;
    for (std::int64_t j = 0; j < std::ssize(products); ++j) {
      const auto age = static_cast<double>(place + o.n_k - o.n_q - piece.key_row(j));
      const double x = std::isinf(products[size(j)]) ? 0.0 : products[size(j)];
      w.push_back(x * std::exp(setting_.log_decay * std::max(0.0, age)));
      sum += w.back();
    }
    const RowRecipe& r = setting_.recipe;
    const double below = r.denominator == scan::Denominator::none  ? 1.0
                         : r.denominator == scan::Denominator::add ? sum + r.eps
                                                                   : std::max(sum, r.eps);
    for (double& x : w) x *= r.factor / below;
    return w;
  }

  const AttentionCase& c_;
  const Setting& setting_;
};

MapSpec spec_of(const Options& o) {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  MapSpec spec{
      .shape = {o.heads, o.n_q, o.n_k}, .causal = o.pattern.text() == "causal", .top = 5, .block = 24, .windows = {}};
  for (std::int64_t p = 1; p <= 12; ++p) spec.windows.push_back(std::max<std::int64_t>(1, p * o.n_k / 12));
  spec.cell_rows = up(o.n_q, 10), spec.cell_keys = up(o.n_k, 10);
  spec.grid_rows = up(o.n_q, spec.cell_rows), spec.grid_columns = up(o.n_k, spec.cell_keys);
  spec.top = std::min(spec.top, o.n_k);
  return spec;
}

class MapOnCard : public ::testing::TestWithParam<Setting> {
 protected:
  MapOnCard() : case_(GetParam().options), setting_(GetParam()) {
    RowRecipe& recipe = setting_.recipe;
    const Options& o = case_.options();
    recipe.scores = {o.weight, o.offset, o.degree};
    if (setting_.log_decay != 0.0)
      for (std::int64_t h = 0; h < o.kv_heads; ++h)
        for (std::int64_t t = o.n_k - 1; t >= 0; --t)
          recipe.powers.push_back(static_cast<float>(std::exp(setting_.log_decay * static_cast<double>(t))));
    if (o.name == "nan") {
      auto& q = case_.arrays().q;
      q.at(0, 3, 0, 1) = NAN;
      q.store();
    }
  }

  template <class Use>
  void with_map(const Use& use) {
    Mirror mirror;
    const tile::Problem problem = tile::testing::problem_on(mirror, case_);
    const auto& a = case_.arrays();
    use(cuda::CardMap{problem, mirror.in(a.q), mirror.in(a.k), setting_.recipe, setting_.row_bytes});
  }

  AttentionCase case_;
  Setting setting_;
};

// Mass by key, distance, window, block and cell.
struct PlainSums {
  std::vector<double> received, distance, windows, cells, largest;
};
PlainSums plain_sums(const PlainMap& map, const MapSpec& spec, std::int64_t head) {
  const auto [heads, n_q, n_k] = spec.shape;
  PlainSums out{std::vector<double>(size(n_k)),
                std::vector<double>(size(n_q + n_k - 1)),
                std::vector<double>(spec.windows.size() + 1),
                std::vector<double>(size(spec.grid_rows * spec.grid_columns)),
                {}};
  out.largest = out.cells;
  for (std::int64_t i = 0; i < n_q; ++i) {
    const std::vector<double> row = map.shares(head, i);
    const std::int64_t place = place_among_keys(i, n_q, n_k, spec.causal);
    for (std::int64_t j = 0; j < n_k; ++j) {
      const double w = row[size(j)], m = std::abs(w);
      out.received[size(j)] += m;
      out.distance[size(j - i + n_q - 1)] += m;
      for (std::size_t p = 0; p < spec.windows.size(); ++p) {
        const KeyWindow window = window_of(place, spec.windows[p], n_k);
        if (window.begin <= j && j < window.end) out.windows[p] += m;
      }
      if (j / spec.block == place / spec.block) out.windows.back() += m;
      const std::size_t cell = size(i / spec.cell_rows * spec.grid_columns + j / spec.cell_keys);
      out.cells[cell] += w;
      out.largest[cell] = std::max(out.largest[cell], m);
    }
  }
  return out;
}

void expect_near(const auto& ours, std::size_t from, const std::vector<double>& want, double limit, const char* what) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(ours[from + i]), want[i], limit) << what << " " << i;
}

TEST_P(MapOnCard, SumsAreThoseOfTheWholeMap) {
  const PlainMap map(case_, setting_);
  const MapSpec spec = spec_of(case_.options());
  with_map([&](const cuda::CardMap& on_card) {
    MapSums sums = cuda::sum_map({}, on_card, spec);
    for (std::int64_t h = 0; h < spec.shape.heads; ++h) {
      PlainSums want = plain_sums(map, spec, h);
      expect_near(sums.received, size(h * spec.shape.n_k), want.received, 2e-5, "received");
      expect_near(sums.distance, size(h * (spec.shape.n_q + spec.shape.n_k - 1)), want.distance, 2e-5, "distance");
      double* windows = &sums.windows[size(h) * want.windows.size()];
      std::partial_sum(windows, windows + spec.windows.size(), windows);
      expect_near(sums.windows, size(h) * want.windows.size(), want.windows, 5e-5, "windows");
      expect_near(sums.cells, size(h) * want.cells.size(), want.cells, 2e-5, "cells");
      expect_near(sums.largest, size(h) * want.cells.size(), want.largest, 5e-6, "largest of cells");
    }
  });
}

TEST_P(MapOnCard, FactsOfRowsAreThoseOfTheWholeMap) {
  const PlainMap map(case_, setting_);
  const MapSpec spec = spec_of(case_.options());
  with_map([&](const cuda::CardMap& on_card) {
    const MapSums sums = cuda::sum_map({}, on_card, spec);
    for (std::int64_t h = 0; h < spec.shape.heads; ++h)
      for (std::int64_t i = 0; i < spec.shape.n_q; ++i) {
        SCOPED_TRACE("head " + std::to_string(h) + ", row " + std::to_string(i));
        const std::size_t at = size(h * spec.shape.n_q + i), first = at * size(spec.top);
        const double sum = map.row_sum(h, i);
        if (std::isnan(sum)) {
          EXPECT_TRUE(std::isnan(sums.entropy[at]) && std::isnan(sums.row_sum[at]));
          EXPECT_EQ(sums.top_keys[first], -1);
          continue;
        }
        const std::vector<double> row = map.shares(h, i);
        double entropy = 0.0;
        for (const double p : row) entropy -= p == 0.0 ? 0.0 : std::abs(p) * std::log(std::abs(p));
        ASSERT_NEAR(sums.entropy[at], entropy, 3e-5);
        ASSERT_NEAR(sums.row_sum[at], sum, 1e-5 * (1.0 + sum));
        const double logit = map.logits[size(h)][size(i)];
        if (!setting_.recipe.features) {
          ASSERT_TRUE(sums.max_logit[at] == logit || std::abs(sums.max_logit[at] - logit) < 1e-5) << logit;
        }
        std::vector<double> order;
        for (const double p : row) order.push_back(std::abs(p));
        std::ranges::sort(order, std::greater());
        for (std::size_t t = 0; t < size(spec.top); ++t) {
          const std::int32_t key = sums.top_keys[first + t];
          ASSERT_NEAR(std::abs(sums.top_weights[first + t]), order[t], 5e-6);
          if (order[t] > 1e-30) {
            ASSERT_GE(key, 0);
          }
          if (key >= 0) {
            ASSERT_NEAR(row[size(key)], sums.top_weights[first + t], 5e-6);
          }
        }
      }
  });
}

TEST_P(MapOnCard, RectanglesAreThoseOfTheWholeMap) {
  const PlainMap map(case_, setting_);
  const Options& o = case_.options();
  const MapRequest parts[] = {{.head = o.heads - 1, .row_end = o.n_q, .key_end = o.n_k},
                              {.row_begin = o.n_q / 3, .row_end = o.n_q / 2, .key_begin = o.n_k / 4, .key_end = o.n_k}};
  with_map([&](const cuda::CardMap& on_card) {
    for (const MapRequest& part : parts) {
      const std::vector<float> cut = cuda::rectangle({}, on_card, {o.heads, o.n_q, o.n_k}, part);
      const std::int64_t columns = part.key_end - part.key_begin;
      for (std::int64_t i = part.row_begin; i < part.row_end; ++i) {
        const double sum = map.row_sum(part.head, i);
        for (std::int64_t j = part.key_begin; std::isfinite(sum) && j < part.key_end; ++j)
          ASSERT_NEAR(cut[size((i - part.row_begin) * columns + j - part.key_begin)],
                      map.weights[size(part.head)][size(i * o.n_k + j)], 1e-5 * (1.0 + sum))
              << i << ", " << j;
      }
    }
  });
}

TEST_P(MapOnCard, IsTheSameTwice) {
  const MapSpec spec = spec_of(case_.options());
  with_map([&](const cuda::CardMap& on_card) {
    const MapSums once = cuda::sum_map({}, on_card, spec), twice = cuda::sum_map({}, on_card, spec);
    EXPECT_EQ(once.received, twice.received);
    EXPECT_EQ(once.distance, twice.distance);
    EXPECT_EQ(once.windows, twice.windows);
    EXPECT_EQ(once.cells, twice.cells);
    EXPECT_EQ(once.top_keys, twice.top_keys);
  });
}

std::vector<Setting> settings() {
  const auto usual = [](const Pattern& pattern, std::int64_t n_q, std::int64_t n_k) {
    return Options{.n_q = n_q, .n_k = n_k, .pattern = pattern, .tile = {64, 64}, .dtype = DType::f32, .size = 3.0};
  };
  const auto of_weight = [&](Weight weight) {
    Options o = usual(Pattern::causal(), 70, 70);
    o.weight = weight;
    o.size = 1.0;
    return o;
  };
  const auto grouped = [&](Options o) {
    o.heads = 4;
    o.kv_heads = 2;
    return o;
  };
  Options biased = usual(Pattern::full(), 50, 50), hidden = biased, sloped = biased, nan = biased, small = biased;
  biased.bias = hidden.bias = tile::testing::Bias::dense;
  hidden.bias_hides = true;
  sloped.alibi = true;
  nan.name = "nan";
  small.tile = {16, 32};
  Options stepped = usual(Pattern::causal(), 75, 75), wide = usual(Pattern::causal(), 90, 90), f64 = biased;
  stepped.step = 3;
  wide.tile = {128, 64};
  f64.dtype = DType::f64;
  Options features = usual(Pattern::causal(), 80, 80);
  const Options across = usual(Pattern::full(), 40, 60), one = usual(Pattern::full(), 1, 1);
  const Pattern several = Pattern::window(9, 4) | Pattern::box({-200, 400, 0, 3});
  return {
      {"softmax", usual(Pattern::full(), 150, 150)},
      {"causal", grouped(usual(Pattern::causal(), 150, 150))},
      {"causal_in_parts", grouped(usual(Pattern::causal(), 150, 150)), {}, 1},
      {"fewer_queries", usual(Pattern::causal(), 40, 100)},
      {"more_queries", usual(Pattern::full(), 100, 33)},
      {"window", usual(Pattern::window(9, 4), 200, 200)},
      {"window_and_column", usual(several, 200, 200), {}, 1},
      {"blocks", usual(Pattern::block_diagonal(64), 140, 140)},
      {"steps", stepped},
      {"bias", biased},
      {"hidden_pairs", hidden},
      {"slopes", sloped},
      {"a_row_that_is_NaN", nan},
      {"small_tiles", small},
      {"wide_tiles", wide},
      {"f64", f64},
      {"one_pair", one},
      {"self_adjust", of_weight(Weight::self_adjust)},
      {"rela", of_weight(Weight::rela)},
      {"relu2", of_weight(Weight::relu2)},
      {"sigmoid", of_weight(Weight::sigmoid)},
      {"exp", of_weight(Weight::exp)},
      {"power", of_weight(Weight::power)},
      {"taylor", of_weight(Weight::taylor), {.quotient = true}},
      {"signed_features", features, {.features = true, .factor = 0.5}},
      {"features_with_decay", grouped(features), {.features = true}, 1, -0.05},
      {"features_with_a_denominator", across, {.features = true, .denominator = scan::Denominator::add, .eps = 500.0}},
      {"features_with_a_floor", across, {.features = true, .denominator = scan::Denominator::clamp, .eps = 40.0}},
  };
}

INSTANTIATE_TEST_SUITE_P(All, MapOnCard, ::testing::ValuesIn(settings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::inspection
