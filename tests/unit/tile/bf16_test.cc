// Attention on pairs of bf16: its products and roundings against plain loops, every option against double, and what
// must not matter. The rest of the machine's kernels see the same cases where the pair instructions are missing.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "attention_case.h"
#include "core/isa.h"
#include "tile/cpu/bf16_product.h"
#include "tile/cpu/kernel.h"

namespace fovea::tile::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

#if FOVEA_BF16_PAIRS

bool machine_has_pairs() { return available_isas().back() == Isa::avx512_bf16; }

// Both values of a pair are at hand as bf16 floats.
struct Halves {
  float low, high;
  explicit Halves(Bf16Pair pair)
      : low(std::bit_cast<float>(pair << 16)), high(std::bit_cast<float>(pair & 0xffff0000u)) {}
};

Bf16Pair pair_of(float low, float high) { return bf16(low).bits | std::uint32_t{bf16(high).bits} << 16; }

std::vector<Bf16Pair> draw_pairs(Random& random, std::size_t n) {
  std::vector<Bf16Pair> out(n);
  for (Bf16Pair& pair : out) pair = pair_of(random.uniform() - 0.5f, random.uniform() - 0.5f);
  return out;
}
std::vector<float> draw_floats(Random& random, std::size_t n) {
  std::vector<float> out(n);
  for (float& x : out) x = random.uniform() - 0.5f;
  return out;
}

enum class Kind { scaled, scaled_with_tops, onto, add_by_rows, add_by_columns };

void check_product(std::size_t m, std::size_t n, std::size_t k, Kind kind) {
  SCOPED_TRACE("m " + std::to_string(m) + " n " + std::to_string(n) + " k " + std::to_string(k));
  Random random(m * 1000 + n * 10 + k);
  const bool by_rows = kind != Kind::onto && kind != Kind::add_by_columns;
  const std::size_t lda = (by_rows ? k : m) + 3, ldb = n + 5, ldc = n + 2;
  const auto a = draw_pairs(random, lda * (by_rows ? m : k) + 1), b = draw_pairs(random, ldb * k + 1);
  const auto before = draw_floats(random, ldc * m), factor = draw_floats(random, n);
  std::vector<float> out = before, tops(n, -0.25f);
  const PairProduct p{a.data(), lda, b.data(), ldb, out.data(), ldc, m, n, k};
  switch (kind) {
    case Kind::scaled: pair_product_scaled(p, 0.75f, nullptr); break;
    case Kind::scaled_with_tops: pair_product_scaled(p, 0.75f, tops.data()); break;
    case Kind::onto: pair_product_onto(p, factor.data()); break;
    case Kind::add_by_rows: pair_product_add(p, Order::rows); break;
    case Kind::add_by_columns: pair_product_add(p, Order::columns); break;
  }
  for (std::size_t j = 0; j < n; ++j) {
    float most = -0.25f;
    for (std::size_t i = 0; i < m; ++i) {
      double sum = 0;
      for (std::size_t x = 0; x < k; ++x) {
        const Halves left(by_rows ? a[i * lda + x] : a[x * lda + i]), right(b[x * ldb + j]);
        sum += double{left.low} * right.low + double{left.high} * right.high;
      }
      const double start = before[i * ldc + j];
      const bool scaled = kind == Kind::scaled || kind == Kind::scaled_with_tops;
      const double want = scaled ? 0.75 * sum : kind == Kind::onto ? start * factor[j] + sum : start + sum;
      ASSERT_NEAR(out[i * ldc + j], want, 2e-5) << "at " << i << ", " << j;
      most = std::max(most, out[i * ldc + j]);
    }
    ASSERT_EQ(tops[j], kind == Kind::scaled_with_tops ? most : -0.25f);
  }
  for (std::size_t i = 0; i < m; ++i)  // nothing outside the rows is touched
    for (std::size_t j = n; j < ldc; ++j) ASSERT_EQ(out[i * ldc + j], before[i * ldc + j]);
}

TEST(Bf16Pairs, ProductsAtEveryTail) {
  if (!machine_has_pairs()) GTEST_SKIP() << "this machine has no products of bf16 pairs";
  for (Kind kind : {Kind::scaled, Kind::scaled_with_tops, Kind::onto, Kind::add_by_rows, Kind::add_by_columns})
    for (std::size_t m = 1; m <= 17; ++m)
      for (std::size_t n : {16, 32, 48, 80})
        for (std::size_t k : {0, 1, 2, 7, 32}) check_product(m, n, k, kind);
}

// Rounds as bf16 does, denormals aside; an odd end is a zero, and nothing is written beyond it.
TEST(Bf16Pairs, RoundingsAtEveryTail) {
  if (!machine_has_pairs()) GTEST_SKIP() << "this machine has no products of bf16 pairs";
  constexpr Bf16Pair kUntouched = 0x12345678u;
  Random random(5);
  for (std::size_t rows : {1, 2, 3, 8})
    for (std::size_t columns = 1; columns <= 70; ++columns) {
      const std::size_t ld = columns + 3;
      std::vector<float> from = draw_floats(random, rows * ld);
      from[0] = 1.0f + 0x1p-8f;  // a tie: to even, downwards
      from[(rows - 1) * ld + columns - 1] = static_cast<float>(kNaN);
      from[columns / 2] = static_cast<float>(-kInfinity);
      const auto at = [&](std::size_t i, std::size_t c) { return i < rows && c < columns ? from[i * ld + c] : 0.0f; };
      std::vector<Bf16Pair> along(rows * ld, kUntouched), woven(pairs_of(rows) * ld, kUntouched);
      pair_columns({from.data(), ld}, {along.data(), ld}, rows, columns);
      pair_rows({from.data(), ld}, {woven.data(), ld}, rows, columns);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t x = 0; x < ld; ++x)
          ASSERT_EQ(along[i * ld + x], x < pairs_of(columns) ? pair_of(at(i, 2 * x), at(i, 2 * x + 1)) : kUntouched);
      for (std::size_t i = 0; i < pairs_of(rows); ++i)
        for (std::size_t x = 0; x < ld; ++x)
          ASSERT_EQ(woven[i * ld + x], x < columns ? pair_of(at(2 * i, x), at(2 * i + 1, x)) : kUntouched);
    }
}

#endif  // FOVEA_BF16_PAIRS

TEST(Bf16Attention, TakesPairsWhereTheMachineHasThem) {
  Problem half, single;
  half.dtype = DType::bf16;
  single.dtype = DType::f32;
  for (Isa isa : available_isas()) {
    force_isa(isa);
    const bool pairs = isa == Isa::avx512_bf16;
    EXPECT_EQ(numbers_of(half), pairs ? Numbers::bf16_pairs : Numbers::f32) << name_of(isa);
    EXPECT_EQ(numbers_of(single), Numbers::f32);
    for (Weight weight : kWeights) {
      half.weight = single.weight = weight;
      EXPECT_EQ(&forward_kernel({half, {}}) != &forward_kernel({single, {}}), pairs);
      EXPECT_EQ(&backward_kernel(half) != &backward_kernel(single), pairs);
    }
  }
  force_isa(available_isas().back());
}

// Euclidean distance over the size of what is wanted. Where that is not finite, both must be the same.
double distance(const std::vector<double>& ours, const std::vector<double>& want) {
  double error = 0, size = 1e-12;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i])) {
      if (ours[i] != want[i]) return kInfinity;
      continue;
    }
    error += (ours[i] - want[i]) * (ours[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::isfinite(error) ? std::sqrt(error / size) : kInfinity;
}

struct Sizes {
  std::int64_t n_q, n_k, d_k, d_v;
  TileSize tile;
};
constexpr Sizes kSizes[] = {{33, 33, 8, 8, {16, 16}},    {37, 52, 9, 17, {16, 16}},  {29, 31, 13, 21, {7, 5}},
                            {1, 37, 1, 3, {16, 64}},     {45, 20, 33, 64, {32, 32}}, {70, 71, 64, 64, {64, 64}},
                            {150, 131, 65, 31, {64, 64}}};

std::vector<Options> features() {
  std::vector<Options> out;
  const auto add = [&](std::string name, const std::function<void(Options&)>& change) {
    Options o{.name = std::move(name), .dtype = DType::bf16};
    change(o);
    out.push_back(o);
  };
  add("full", [](Options&) {});
  add("causal", [](Options& o) { o.pattern = Pattern::causal(); });
  add("window", [](Options& o) { o.pattern = Pattern::window(5, 3); });
  add("diagonal", [](Options& o) { o.pattern = Pattern::block_diagonal(10); });
  add("predicate", [](Options& o) {
    o.pattern = Pattern::predicate("some", [](std::int64_t q, std::int64_t k) { return (q * 7 + k * 3) % 5 < 2; });
  });
  add("grouped", [](Options& o) { o.heads = 6, o.kv_heads = 2, o.batch = 2; });
  add("heads_first", [](Options& o) { o.heads_first = true, o.heads = 4, o.pattern = Pattern::causal(); });
  add("alibi", [](Options& o) { o.alibi = true; });
  add("dropout", [](Options& o) { o.dropout = 0.3f, o.batch = 2; });
  add("d_lse", [](Options& o) { o.d_lse = true; });
  add("bias", [](Options& o) { o.bias = Bias::dense, o.batch = 2; });
  add("shared_bias", [](Options& o) { o.bias = Bias::per_head_broadcast, o.bias_hides = true, o.heads = 4; });
  add("key_bias", [](Options& o) { o.bias = Bias::keys_only, o.bias_hides = true; });
  add("steps", [](Options& o) { o.pattern = Pattern::causal(), o.alibi = true, o.dropout = 0.1f, o.step = 3; });
  add("large_scores", [](Options& o) { o.size = 4.0; });
  const auto everything = [](Options& o) {
    o.batch = 2, o.heads = 4, o.pattern = Pattern::causal() & Pattern::window(20, 0), o.alibi = true;
    o.dropout = 0.1f, o.bias = Bias::per_batch_broadcast, o.bias_hides = true;
  };
  for (Weight weight : kWeights) {
    const std::string name = name_of(weight);
    add(name, [&](Options& o) { o.weight = weight, o.pattern = Pattern::causal(); });
    add(name + "_everything", [&](Options& o) { everything(o), o.weight = weight, o.d_lse = has_statistic(weight); });
  }
  return out;
}

class Bf16Options : public ::testing::TestWithParam<Options> {};

TEST_P(Bf16Options, AgreesWithDouble) {
  const Context context({.threads = 2, .memory = {.poison = true}});
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE("n_q " + std::to_string(sizes.n_q) + " d_k " + std::to_string(sizes.d_k));
    Options o = GetParam();
    o.n_q = sizes.n_q, o.n_k = sizes.n_k, o.d_k = sizes.d_k, o.d_v = sizes.d_v, o.tile = sizes.tile;
    AttentionCase c(o);
    c.run_forward(context);
    c.run_backward(context);
    const Arrays want = c.reference();
    EXPECT_LT(distance(c.arrays().o.values, want.o.values), 1e-2) << "o";
    if (has_statistic(o.weight)) {
      EXPECT_LT(distance(c.arrays().lse.values, want.lse.values), 1e-5) << "lse";
    }
    EXPECT_LT(distance(c.arrays().dq.values, want.dq.values), 2e-2) << "dq";
    EXPECT_LT(distance(c.arrays().dk.values, want.dk.values), 2e-2) << "dk";
    EXPECT_LT(distance(c.arrays().dv.values, want.dv.values), 2e-2) << "dv";
    EXPECT_LT(distance(c.arrays().d_bias, want.d_bias), 2e-2) << "d_bias";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Options, ::testing::ValuesIn(features()),
                         [](const auto& info) { return info.param.name; });

using Change = std::function<void(AttentionCase&)>;

Arrays run(const Options& options, int threads, const Change& change) {
  const Context context({.threads = threads, .memory = {.poison = true}});
  AttentionCase c(options);
  change(c);
  for (Field Arrays::*field : {&Arrays::q, &Arrays::k, &Arrays::v, &Arrays::d_o, &Arrays::d_lse})
    (c.arrays().*field).store();
  c.run_forward(context);
  c.run_backward(context);
  return c.arrays();
}
const Change kUnchanged = [](AttentionCase&) {};

constexpr Field Arrays::*kResults[] = {&Arrays::o, &Arrays::lse, &Arrays::dq, &Arrays::dk, &Arrays::dv};

void fill_row(Field& field, std::int64_t row, double value) {
  for (std::int64_t h = 0; h < field.heads; ++h)
    for (std::int64_t c = 0; c < field.dim; ++c) field.at(0, row, h, c) = value;
}

TEST(Bf16Attention, SameBitsAtAnyThreadCount) {
  std::vector<Options> cases(3);
  cases[0] = {.n_q = 151, .n_k = 151, .heads = 1, .kv_heads = 1, .pattern = Pattern::causal()};
  cases[1] = {.batch = 3, .n_q = 90, .n_k = 71, .heads = 4, .bias = Bias::per_head_broadcast, .dropout = 0.1f};
  cases[2] = {.n_q = 300, .n_k = 300, .heads = 8, .kv_heads = 8, .pattern = Pattern::window(20, 0)};
  for (Options& options : cases) {
    options.dtype = DType::bf16;
    const Arrays one = run(options, 1, kUnchanged);
    for (int threads : {2, 3, 7}) {
      const Arrays more = run(options, threads, kUnchanged);
      for (Field Arrays::*field : kResults) EXPECT_EQ((more.*field).storage, (one.*field).storage);
      EXPECT_EQ(more.d_bias, one.d_bias);
    }
  }
}

// A key that nobody sees may hold anything without changing a bit: beside its neighbour in a pair, and as the odd last
// one.
TEST(Bf16Attention, HiddenKeysMayHoldNaN) {
  for (Weight weight : kWeights)
    for (bool by_bias : {false, true})
      for (std::int64_t hidden : {10, 11, 30}) {
        Options options{.n_q = 31, .n_k = 31, .d_k = 7, .d_v = 9, .weight = weight, .dtype = DType::bf16};
        if (by_bias)
          options.bias = Bias::keys_only;
        else
          options.pattern = Pattern::predicate("seen", [=](std::int64_t, std::int64_t k) { return k != hidden; });
        const Change hide = [&](AttentionCase& c) {
          if (by_bias) c.arrays().bias[static_cast<std::size_t>(hidden)] = -kInfinity;
          c.store_bias();
        };
        const Arrays want = run(options, 2, hide);
        const Arrays ours = run(options, 2, [&](AttentionCase& c) {
          hide(c);
          fill_row(c.arrays().k, hidden, kNaN);
          fill_row(c.arrays().v, hidden, kInfinity);
        });
        for (Field Arrays::*field : kResults) EXPECT_EQ((ours.*field).storage, (want.*field).storage);
      }
}

TEST(Bf16Attention, NaNStaysInItsFuture) {
  for (std::int64_t key : {20, 21, 38}) {
    const Options options{.n_q = 39, .n_k = 39, .pattern = Pattern::causal(), .dtype = DType::bf16};
    const Arrays want = run(options, 2, kUnchanged);
    const Arrays ours = run(options, 2, [&](AttentionCase& c) {
      fill_row(c.arrays().k, key, kNaN);
      fill_row(c.arrays().v, key, kNaN);
    });
    for (std::int64_t i = 0; i < 39; ++i)
      for (std::int64_t c = 0; c < 8; ++c) {
        if (i < key)
          EXPECT_EQ(ours.o.at(0, i, 0, c), want.o.at(0, i, 0, c));
        else
          EXPECT_TRUE(std::isnan(ours.o.at(0, i, 0, c)));
      }
  }
}

// A NaN that is seen arrives: rounding must not lose it.
TEST(Bf16Attention, VisibleNaNArrives) {
  const Options options{.n_q = 20, .n_k = 21, .dtype = DType::bf16};
  const Arrays a = run(options, 2, [](AttentionCase& c) { fill_row(c.arrays().q, 3, kNaN); });
  for (std::int64_t c = 0; c < 8; ++c) {
    EXPECT_TRUE(std::isnan(a.o.at(0, 3, 0, c)));
    EXPECT_TRUE(std::isnan(a.dq.at(0, 3, 0, c)));
    EXPECT_TRUE(std::isnan(a.dk.at(0, 20, 0, c)));
    EXPECT_FALSE(std::isnan(a.o.at(0, 2, 0, c)));
    EXPECT_FALSE(std::isnan(a.dq.at(0, 2, 0, c)));
  }
}

// Rows that no piece holds are NaN here; the last query and key of each piece have no partner in their pair.
TEST(Bf16Attention, PaddingMayHoldNaN) {
  for (Weight weight : kWeights) {
    Options options{.n_q = 40, .n_k = 44, .weight = weight, .dtype = DType::bf16};
    options.alibi = true;
    options.pieces = {{0, 0, 17, 0, 19, nullptr}, {0, 20, 5, 21, 7, nullptr}};
    const Arrays want = run(options, 2, kUnchanged);
    const Arrays ours = run(options, 2, [](AttentionCase& c) {
      for (std::int64_t i = 17; i < 40; i += i == 19 ? 6 : 1)
        for (Field* field : {&c.arrays().q, &c.arrays().d_o}) fill_row(*field, i, kNaN);
      for (std::int64_t j = 19; j < 44; j += j == 20 ? 8 : 1)
        for (Field* field : {&c.arrays().k, &c.arrays().v}) fill_row(*field, j, kNaN);
    });
    for (Field Arrays::*field : kResults) EXPECT_EQ((ours.*field).storage, (want.*field).storage);
  }
}

TEST(Bf16Attention, EmptyRowsGiveZeroAndMinusInfinity) {
  const Options options{.n_q = 31, .n_k = 12, .pattern = Pattern::causal(), .dtype = DType::bf16, .d_lse = true};
  const Arrays a = run(options, 2, [](AttentionCase& c) {  // whatever comes back into such a row must not matter
    for (std::int64_t i = 0; i < 19; ++i)
      for (Field* field : {&c.arrays().q, &c.arrays().d_o, &c.arrays().d_lse}) fill_row(*field, i, kNaN);
  });
  for (std::int64_t i = 0; i < 19; ++i) {
    EXPECT_EQ(a.lse.at(0, i, 1), -kInfinity);
    for (std::int64_t c = 0; c < 8; ++c) {
      EXPECT_EQ(a.o.at(0, i, 1, c), 0.0);
      EXPECT_EQ(a.dq.at(0, i, 1, c), 0.0);
    }
  }
  for (const Field* field : {&a.dk, &a.dv})
    for (double x : field->values) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace fovea::tile::testing
