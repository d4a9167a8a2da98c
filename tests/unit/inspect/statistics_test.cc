#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "fovea/inspect.h"
#include "support/tensors.h"

// Statistics against what the whole map, row by row, says.
namespace fovea {
namespace {

using testing::random;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Sizes {
  std::int64_t heads = 2, n_q = 150, n_k = 150, d = 8, kv_heads = 0;  // kv_heads: 0: as many as heads
};

struct Setting {
  std::string mechanism;
  bool causal = false;
  Sizes sizes = {};
};

class Statistics : public ::testing::TestWithParam<Setting> {
 protected:
  Statistics() {
    const Sizes& s = GetParam().sizes;
    q_ = random(context_, {1, s.n_q, s.heads, s.d}, 1, DType::f32, 2.0);
    const std::int64_t kv_heads = s.kv_heads > 0 ? s.kv_heads : s.heads;
    k_ = random(context_, {1, s.n_k, kv_heads, s.d}, 2, DType::f32, 2.0);
    v_ = random(context_, {1, s.n_k, kv_heads, s.d}, 3, DType::f32);
    call_.causal = GetParam().causal;
  }

  LayerRecord measure(const InspectOptions& options = {}) {
    return inspect_attention(context_, q_, k_, v_, mechanism_, call_, options);
  }
  // Shares of the rows of a head.
  std::vector<std::vector<double>> shares(std::int64_t head) {
    const Sizes& s = GetParam().sizes;
    const MapRectangle map =
        map_rectangle(context_, q_, k_, v_, mechanism_, call_, {.head = head, .row_end = s.n_q, .key_end = s.n_k});
    std::vector<std::vector<double>> rows(at(s.n_q));
    for (std::int64_t i = 0; i < s.n_q; ++i) {
      const auto first = map.weights.begin() + i * s.n_k;
      rows[at(i)].assign(first, first + s.n_k);
      double sum = 0.0;
      for (const double w : rows[at(i)]) sum += std::abs(w);
      for (double& w : rows[at(i)]) w /= sum > 0.0 ? sum : 1.0;
    }
    return rows;
  }

  Context context_ = testing::poisoned();
  Mechanism mechanism_ = Mechanism::parse(GetParam().mechanism);
  Tensor q_, k_, v_;
  AttentionOptions call_;
};

TEST_P(Statistics, OfRowsAreThoseOfTheMap) {
  const LayerRecord record = measure({.top = 5});
  ASSERT_EQ(std::ssize(record.heads), GetParam().sizes.heads);
  for (const HeadRecord& head : record.heads) {
    const auto rows = shares(head.head);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (std::ranges::all_of(rows[i], [](double p) { return p == 0.0; })) {
        EXPECT_TRUE(std::isnan(head.entropy[i]) && std::isnan(head.largest[i]));
        EXPECT_EQ(head.largest_key[i], -1);
        continue;
      }
      double entropy = 0.0;
      for (const double p : rows[i]) entropy -= p == 0.0 ? 0.0 : std::abs(p) * std::log(std::abs(p));
      EXPECT_NEAR(head.entropy[i], entropy, 2e-5);
      EXPECT_NEAR(head.effective_keys[i], std::exp(entropy), 1e-3);
      EXPECT_GE(head.entropy[i], -1e-6f);
      EXPECT_LE(head.entropy[i], std::log(static_cast<double>(rows[i].size())) + 1e-5);
      std::vector<std::int32_t> order(rows[i].size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](auto a, auto b) { return std::abs(rows[i][at(a)]) > std::abs(rows[i][at(b)]); });
      EXPECT_NEAR(head.largest[i], rows[i][at(order[0])], 5e-6);
      EXPECT_NEAR(std::abs(rows[i][at(head.largest_key[i])]), std::abs(rows[i][at(order[0])]), 1e-7);
      const auto top = static_cast<std::size_t>(head.top);  // no more than there are keys
      for (std::size_t t = 0; t < top; ++t) {
        const std::int32_t key = head.top_keys[i * top + t];
        const double expected = std::abs(rows[i][at(order[t])]);
        EXPECT_NEAR(key < 0 ? 0.0 : std::abs(head.top_weights[i * top + t]), expected, 5e-6);
      }
    }
  }
}

TEST_P(Statistics, OfKeysAndDistancesAreThoseOfTheMap) {
  const LayerRecord record = measure();
  const Sizes& s = GetParam().sizes;
  for (const HeadRecord& head : record.heads) {
    const auto rows = shares(head.head);
    std::vector<double> received(at(s.n_k), 0.0), distance(at(s.n_q + s.n_k - 1), 0.0);
    double with_mass = 0.0;
    for (std::int64_t i = 0; i < s.n_q; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < s.n_k; ++j) {
        received[at(j)] += std::abs(rows[at(i)][at(j)]);
        distance[at(j - i + s.n_q - 1)] += std::abs(rows[at(i)][at(j)]);
        sum += std::abs(rows[at(i)][at(j)]);
      }
      with_mass += sum > 0.0 ? 1.0 : 0.0;
    }
    for (std::size_t j = 0; j < received.size(); ++j) EXPECT_NEAR(head.received[j], received[j], 1e-5);
    for (std::size_t j = 0; j < distance.size(); ++j) EXPECT_NEAR(head.distance[j], distance[j] / with_mass, 1e-7);
    EXPECT_NEAR(std::accumulate(head.received.begin(), head.received.end(), 0.0), with_mass, 1e-3);
    EXPECT_NEAR(std::accumulate(head.distance.begin(), head.distance.end(), 0.0), 1.0, 1e-5);
  }
}

// Keys in the order c, c - 1, c + 1, c - 2, ..., without those that are not there.
double nearest_mass(const std::vector<double>& row, std::int64_t c, std::int64_t keys) {
  const std::int64_t n = std::ssize(row);
  double sum = std::abs(row[at(c)]);
  std::int64_t left = c - 1, right = c + 1, taken = 1;
  for (bool turn = true; taken < keys; turn = !turn) {
    if ((turn && left >= 0) || right >= n)
      sum += std::abs(row[at(left--)]);
    else
      sum += std::abs(row[at(right++)]);
    ++taken;
    if (turn && left < -1) break;
  }
  return sum;
}

TEST_P(Statistics, OfLocalityAreThoseOfTheMap) {
  const Sizes& s = GetParam().sizes;
  if (s.n_q != s.n_k) return;
  const LayerRecord record = measure({.curve_points = 20});
  for (const HeadRecord& head : record.heads) {
    const auto rows = shares(head.head);
    double area = 0.0;
    for (std::int64_t p = 0; p < 20; ++p) {
      double mean = 0.0, with_mass = 0.0;
      for (std::int64_t i = 0; i < s.n_q; ++i) {
        const double mass = nearest_mass(rows[at(i)], i, ((p + 1) * s.n_k + 19) / 20);
        mean += mass;
        with_mass += nearest_mass(rows[at(i)], i, s.n_k) > 0.0 ? 1.0 : 0.0;
      }
      EXPECT_NEAR(head.curve[at(p)], mean / with_mass, 1e-5) << p;
      area += mean / with_mass / 20.0;
    }
    EXPECT_NEAR(head.curve.back(), 1.0, 1e-5);
    EXPECT_NEAR(head.area, area, 1e-5);
  }
}

TEST_P(Statistics, LevelsOfThePyramidAgreeWithTheMap) {
  const Sizes& s = GetParam().sizes;
  for (const std::int64_t cells : {16, 200}) {
    const LayerRecord record = measure({.cells = cells});
    for (const HeadRecord& head : record.heads) {
      const auto rows = shares(head.head);
      ASSERT_FALSE(head.pyramid.empty());
      EXPECT_EQ(head.pyramid.back().rows * head.pyramid.back().columns, 1);
      for (const MapLevel& level : head.pyramid) {
        ASSERT_LE(std::max(level.rows, level.columns), cells);
        for (std::int64_t r = 0; r < level.rows; ++r)
          for (std::int64_t c = 0; c < level.columns; ++c) {
            double sum = 0.0, largest = 0.0, pairs = 0.0;
            for (std::int64_t i = r * level.cell_rows; i < std::min(s.n_q, (r + 1) * level.cell_rows); ++i)
              for (std::int64_t j = c * level.cell_keys; j < std::min(s.n_k, (c + 1) * level.cell_keys); ++j) {
                sum += rows[at(i)][at(j)];
                largest = std::max(largest, std::abs(rows[at(i)][at(j)]));
                pairs += 1.0;
              }
            ASSERT_NEAR(level.mean[at(r * level.columns + c)], sum / pairs, 5e-6);
            ASSERT_NEAR(level.largest[at(r * level.columns + c)], largest, 5e-6);
          }
      }
    }
  }
}

void expect_near(const auto& a, const auto& b, double limit, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(std::abs(a[i] - b[i]) <= limit || (std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i])
        << what << " " << i << ": " << a[i] << " and " << b[i];
}

// The curve of the paper needs whole rows, one after the other: everything else must be what tiles give.
TEST_P(Statistics, OfRowsAndOfTilesAgree) {
  const LayerRecord some = measure({.top = 6, .cells = 50}),
                    rows = measure({.top = 6, .cells = 50, .paper_curve = true});
  for (std::size_t h = 0; h < some.heads.size(); ++h) {
    const HeadRecord &a = some.heads[h], &b = rows.heads[h];
    expect_near(a.entropy, b.entropy, 2e-5, "entropy");
    expect_near(a.largest, b.largest, 5e-6, "largest");
    expect_near(a.top_weights, b.top_weights, 5e-6, "top_weights");
    expect_near(a.max_logit, b.max_logit, 1e-4, "max_logit");
    expect_near(a.row_sum, b.row_sum, 1e-4 * (1.0 + std::abs(b.row_sum[0])), "row_sum");
    expect_near(a.received, b.received, 1e-5, "received");
    expect_near(a.distance, b.distance, 1e-6, "distance");
    for (std::size_t l = 0; l < a.pyramid.size(); ++l) {
      expect_near(a.pyramid[l].mean, b.pyramid[l].mean, 5e-6, "mean");
      expect_near(a.pyramid[l].largest, b.pyramid[l].largest, 5e-6, "largest of cells");
    }
    EXPECT_NEAR(a.verdict.block_mass, b.verdict.block_mass, 1e-5);
    EXPECT_EQ(a.verdict.head_class, b.verdict.head_class);
    EXPECT_EQ(a.bad_rows, b.bad_rows);
  }
}

TEST_P(Statistics, AreTheSameBitsOnAnyNumberOfThreads) {
  context_.set_threads(1);
  const LayerRecord one = measure();
  context_.set_threads(3);
  const LayerRecord three = measure();
  for (std::size_t h = 0; h < one.heads.size(); ++h) {
    // NaN where a row has no key.
    EXPECT_EQ(std::memcmp(one.heads[h].entropy.data(), three.heads[h].entropy.data(), 4 * one.heads[h].entropy.size()),
              0);
    EXPECT_EQ(one.heads[h].top_keys, three.heads[h].top_keys);
    EXPECT_EQ(one.heads[h].received, three.heads[h].received);
    EXPECT_EQ(one.heads[h].distance, three.heads[h].distance);
    EXPECT_EQ(one.heads[h].curve, three.heads[h].curve);
    EXPECT_EQ(one.heads[h].pyramid[0].mean, three.heads[h].pyramid[0].mean);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, Statistics,
    ::testing::Values(Setting{"softmax"}, Setting{"softmax", true}, Setting{"topk:k=9", true}, Setting{"sigmoid"},
                      Setting{"window:left=9,right=4"}, Setting{"dilated", true},
                      Setting{"sparse-strided:stride=12", true}, Setting{"diag:block=32"}, Setting{"norm"},
                      Setting{"linear", true}, Setting{"retnet", true}, Setting{"lightning", true}, Setting{"nystrom"},
                      Setting{"softmax", false, {3, 40, 150, 16}}, Setting{"softmax", true, {3, 40, 150, 16}},
                      Setting{"dilated"}, Setting{"sparse-fixed"}, Setting{"logsparse", true}, Setting{"cascade"},
                      Setting{"bigbird"}, Setting{"sa-softmax"}, Setting{"softmax", true, {6, 130, 130, 8, 2}},
                      Setting{"softmax", false, {2, 150, 70, 8}}, Setting{"softmax", true, {2, 150, 70, 8}},
                      Setting{"softmax", false, {2, 33, 290, 8}}, Setting{"softmax", false, {1, 1, 1, 8}}),
    [](const auto& info) {
      std::string name = std::to_string(info.index) + "_" + info.param.mechanism;
      for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      return name;
    });

struct Made {
  Tensor q, k, v;
};

// Scores that make a head of a known kind.
Made made(const Context& context, std::int64_t n, const std::function<double(std::int64_t, std::int64_t)>& score) {
  std::vector<float> q(at(n * n)), k(at(n * n), 0.0f);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      q[at(i * n + j)] = static_cast<float>(score(i, j) * std::sqrt(static_cast<double>(n)));
    k[at(i * n + i)] = 1.0f;
  }
  return {Tensor::from<float>(context, {1, n, 1, n}, q), Tensor::from<float>(context, {1, n, 1, n}, k),
          random(context, {1, n, 1, 4}, 5, DType::f32)};
}

HeadVerdict told(const std::function<double(std::int64_t, std::int64_t)>& score, std::int64_t block = 16) {
  Context context = testing::poisoned();
  const Made x = made(context, 96, score);
  return inspect_attention(context, x.q, x.k, x.v, Mechanism("softmax"), {}, {.block = block}).heads[0].verdict;
}

TEST(HeadClasses, AreToldByTheirNumbers) {
  const auto near = [](std::int64_t offset) {
    return [=](std::int64_t i, std::int64_t j) { return j == i + offset ? 12.0 : 0.0; };
  };
  EXPECT_EQ(told(near(-1)).head_class, HeadClass::previous);
  EXPECT_EQ(told(near(1)).head_class, HeadClass::next);
  EXPECT_EQ(told(near(0)).head_class, HeadClass::self);
  EXPECT_EQ(told(near(-5)).head_class, HeadClass::offset);
  EXPECT_EQ(told(near(-5)).offset, -5);
  const HeadVerdict sink = told([](std::int64_t, std::int64_t j) { return j == 7 ? 9.0 : 0.0; });
  EXPECT_EQ(sink.head_class, HeadClass::broadcast);
  EXPECT_EQ(sink.broadcast_key, 7);
  EXPECT_GT(sink.broadcast_mass, 0.9);
  EXPECT_EQ(told([](std::int64_t i, std::int64_t j) { return i / 16 == j / 16 ? 9.0 : 0.0; }).head_class,
            HeadClass::block);
  // A band that reaches over the bounds of blocks is mostly inside them, too, and not because of them.
  const auto in_band = [](std::int64_t i, std::int64_t j) { return std::abs(i - j) < 12 ? 12.0 : 0.0; };
  const HeadVerdict band = told(in_band, 48);
  EXPECT_GT(band.block_mass, 0.9);
  EXPECT_NEAR(band.block_mass, band.block_by_distance, 0.08);
  EXPECT_EQ(band.head_class, HeadClass::diffuse);
  // A bell of known width, its peak a token away in turns, so that no one distance has most of the rows.
  const HeadVerdict bell = told([](std::int64_t i, std::int64_t j) {
    const auto t = static_cast<double>(j - i - i % 3 + 1);
    return -t * t / (2.0 * 2.0 * 2.0);
  });
  EXPECT_EQ(bell.head_class, HeadClass::local);
  EXPECT_NEAR(bell.deviation, std::sqrt(4.0 + 2.0 / 3.0), 0.15);
  const HeadVerdict flat = told([](std::int64_t i, std::int64_t j) { return 0.01 * static_cast<double>(i * j % 7); });
  EXPECT_EQ(flat.head_class, HeadClass::diffuse);
  EXPECT_NEAR(flat.entropy, 1.0, 0.01);
}

TEST(BadNumbers, AreShownAndCountedAndSpoilNoOtherRow) {
  Context context = testing::poisoned();
  const Tensor q = random(context, {1, 20, 2, 4}, 1, DType::f32), k = random(context, {1, 20, 2, 4}, 2, DType::f32),
               v = random(context, {1, 20, 2, 4}, 3, DType::f32);
  q.slice(1, 6, 7).fill(NAN);
  const LayerRecord record = inspect_attention(context, q, k, v, Mechanism("softmax"));
  for (const HeadRecord& head : record.heads) {
    EXPECT_EQ(head.bad_rows, 1);
    EXPECT_TRUE(std::isnan(head.entropy[6]));
    EXPECT_EQ(head.largest_key[6], -1);
    EXPECT_TRUE(std::isfinite(head.entropy[5]));
    for (const double mass : head.received) EXPECT_TRUE(std::isfinite(mass));
    EXPECT_NEAR(std::accumulate(head.received.begin(), head.received.end(), 0.0), 19.0, 1e-4);
  }
}

TEST(BadNumbers, OfAKeyAreThoseOfTheRowsThatReadIt) {
  Context context = testing::poisoned();
  const Tensor q = random(context, {1, 80, 1, 4}, 1, DType::f32), k = random(context, {1, 80, 1, 4}, 2, DType::f32);
  k.slice(1, 50, 51).fill(NAN);
  const HeadRecord head = inspect_attention(context, q, k, k, Mechanism("softmax"), {.causal = true}).heads[0];
  EXPECT_EQ(head.bad_rows, 30);
  for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(std::isnan(head.entropy[i]), i >= 50);
  EXPECT_NEAR(std::accumulate(head.received.begin(), head.received.end(), 0.0), 50.0, 1e-4);
  EXPECT_NEAR(head.curve.back(), 1.0, 1e-5);
}

TEST(BadCalls, AreRefused) {
  Context context = testing::poisoned();
  const Tensor x = random(context, {1, 8, 2, 4}, 1, DType::f32);
  const Mechanism softmax("softmax");
  EXPECT_THROW(inspect_attention(context, x, x, x, softmax, {}, {.sequence = 1}), Error);
  EXPECT_THROW(inspect_attention(context, x, x, x, softmax, {}, {.curve_points = 0}), Error);
  EXPECT_THROW(inspect_attention(context, x, x, x, softmax, {}, {.cells = -1}), Error);
  EXPECT_THROW(map_rectangle(context, x, x, x, softmax, {}, {.head = 2, .row_end = 1, .key_end = 1}), Error);
  EXPECT_THROW(map_rectangle(context, x, x, x, softmax, {}, {.row_end = 9, .key_end = 1}), Error);
}

}  // namespace
}  // namespace fovea
