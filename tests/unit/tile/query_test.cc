#include "tile/query.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/isa.h"
#include "core/rng.h"

namespace fovea::tile {
namespace {

struct Sizes {
  std::int64_t n, heads, kv_heads, d_k, d_v;
};

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed) {
  Random random(seed, 4);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = T(static_cast<float>(1.5 * random.normal()));
  return values;
}

// Rows of keys and of values stand in one buffer side by side, as a fused projection leaves them.
template <class T>
struct Case {
  explicit Case(const Sizes& sizes)
      : s(sizes),
        row(s.kv_heads * (s.d_k + s.d_v) + 3),
        q(random_values<T>(s.heads * s.d_k, 1)),
        cache(random_values<T>(s.n * row, 2)),
        o(static_cast<std::size_t>(s.heads * s.d_v), T(NAN)) {}

  Query query() {
    const T* data = cache.data();
    return {.n = s.n,
            .q = {q.data(), 0, 0, s.d_k},
            .keys = {data, 0, row, s.d_k},
            .values = {data + s.kv_heads * s.d_k, 0, row, s.d_v},
            .o = {o.data(), 0, 0, s.d_v}};
  }
  // This one and those beside it, of the same heads and widths.
  void run_among(const Context& context, std::span<const Query> queries) const {
    attend_queries<Device::cpu>(context, {.dtype = dtype_of<T>,
                                          .heads = s.heads,
                                          .kv_heads = s.kv_heads,
                                          .d_k = s.d_k,
                                          .d_v = s.d_v,
                                          .scale = 0.4,
                                          .queries = queries});
  }
  std::vector<T> run(const Context& context) {
    const Query one = query();
    run_among(context, {&one, 1});
    return o;
  }

  // The definition, in double precision.
  double exact(std::int64_t head, std::int64_t channel) const {
    const std::int64_t kv = head / (s.heads / s.kv_heads);
    double sum = 0.0, weighted = 0.0;
    for (std::int64_t t = 0; t < s.n; ++t) {
      const T* base = cache.data() + t * row;
      double score = 0.0;
      for (std::int64_t i = 0; i < s.d_k; ++i)
        score += double(float(q[static_cast<std::size_t>(head * s.d_k + i)])) * double(float(base[kv * s.d_k + i]));
      const double weight = std::exp(0.4 * score);
      sum += weight;
      weighted += weight * double(float(base[s.kv_heads * s.d_k + kv * s.d_v + channel]));
    }
    return weighted / sum;
  }

  Sizes s;
  std::int64_t row;
  std::vector<T> q, cache, o;
};

const std::vector<Sizes> kSizes = {{1, 1, 1, 1, 1},     {2, 3, 3, 5, 7},     {127, 4, 2, 16, 16}, {128, 2, 1, 64, 64},
                                   {129, 12, 12, 9, 3}, {300, 6, 3, 33, 65}, {1000, 2, 2, 20, 8}};

template <class T>
void check_all(double relative) {
  const Isa before = chosen_isa();
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    for (const Sizes& sizes : kSizes) {
      const Context context({.threads = 2, .memory = {.poison = true}});
      Case<T> one(sizes);
      const auto o = one.run(context);
      for (std::int64_t h = 0; h < sizes.heads; ++h)
        for (std::int64_t i = 0; i < sizes.d_v; ++i) {
          const double exact = one.exact(h, i);
          ASSERT_NEAR(double(float(o[static_cast<std::size_t>(h * sizes.d_v + i)])), exact,
                      relative * (1.0 + std::abs(exact)))
              << sizes.n << " " << h << " " << i;
        }
    }
  }
  force_isa(before);
}

TEST(Query, IsTheDefinitionInF32) { check_all<float>(2e-5); }
TEST(Query, IsTheDefinitionInBf16) { check_all<bf16>(5e-3); }

TEST(Query, HasTheSameBitsAtAnyNumberOfThreads) {
  Case<float> one({700, 4, 2, 24, 40});
  const auto first = one.run(Context({.threads = 1}));
  for (const int threads : {2, 3}) EXPECT_EQ(one.run(Context({.threads = threads})), first);
}

// Sequences of different lengths, one without any key.
TEST(Query, HasTheSameBitsInAnyCompany) {
  std::vector<Case<float>> cases;
  std::vector<std::vector<float>> alone;
  for (const std::int64_t n : {700, 1, 128, 0, 129, 40}) {
    cases.emplace_back(Sizes{n, 4, 2, 24, 40});
    alone.push_back(cases.back().run(Context({.threads = 1})));
  }
  EXPECT_EQ(alone[3], std::vector<float>(160, 0.0f));
  std::vector<Query> queries;
  for (Case<float>& one : cases) {
    std::fill(one.o.begin(), one.o.end(), NAN);
    queries.push_back(one.query());
  }
  for (const int threads : {1, 3}) {
    cases[0].run_among(Context({.threads = threads}), queries);
    for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(cases[i].o, alone[i]) << i;
  }
}

TEST(Query, StandsLargeScoresAndShowsWhatIsNotANumber) {
  Case<float> one({200, 2, 1, 8, 4});
  for (float& x : one.q) x *= 1e4f;
  const auto large = one.run(Context({.threads = 2}));
  for (const float x : large) EXPECT_TRUE(std::isfinite(x));
  one.cache[static_cast<std::size_t>(150 * one.row)] = NAN;
  const auto bad = one.run(Context({.threads = 2}));
  for (const float x : bad) EXPECT_TRUE(std::isnan(x));
}

}  // namespace
}  // namespace fovea::tile
