// The tiled engine of the card against plain loops in double: every option, at sizes that divide nothing; random
// problems; the same bits twice; what is hidden does not matter.

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "device_case.h"
#include "support/names.h"

namespace fovea::tile::testing {
namespace {

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 2e-13;
    case DType::f32: return 2e-5;
    case DType::f16: return 3e-3;
    default: return 1.5e-2;
  }
}

void expect_near(const AttentionCase& c, const Arrays& want) {
  const double limit = tolerance(c.options().dtype) * c.options().tolerance;
  // Where terms cancel, rounding errors are those of the terms.
  const double floor = c.options().size > 1 ? c.options().size : 0.1;
  const Arrays& a = c.arrays();
  EXPECT_LT(difference(a.o.values, want.o.values), limit) << "o";
  EXPECT_LT(difference(a.lse.values, want.lse.values), std::min(limit, 2e-5)) << "lse";
  EXPECT_LT(difference(a.dq.values, want.dq.values, floor), limit) << "dq";
  EXPECT_LT(difference(a.dk.values, want.dk.values, floor), limit) << "dk";
  EXPECT_LT(difference(a.dv.values, want.dv.values, floor), limit) << "dv";
  EXPECT_LT(difference(a.d_bias, want.d_bias, 1.0), limit) << "d_bias";
}

void run(AttentionCase& c) {
  run_forward_on_card(c);
  run_backward_on_card(c);
}

std::vector<std::byte> results_of(const AttentionCase& c) {
  std::vector<std::byte> all;
  const Arrays& a = c.arrays();
  for (const Field* f : {&a.o, &a.lse, &a.dq, &a.dk, &a.dv})
    all.insert(all.end(), f->storage.begin(), f->storage.end());
  for (double x : a.d_bias) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&x);
    all.insert(all.end(), bytes, bytes + sizeof(x));
  }
  return all;
}

void check_case(const Options& options) {
  AttentionCase c(options);
  run(c);
  if (::testing::Test::HasFatalFailure()) return;
  expect_near(c, c.reference());
  const std::vector<std::byte> first = results_of(c);
  c.clear_outputs();
  run(c);
  EXPECT_TRUE(first == results_of(c)) << "other bits the second time";
}

Pattern pattern_of(std::uint32_t which, std::int64_t n) {
  switch (which) {
    case 0: return Pattern::full();
    case 1:
    case 2: return Pattern::causal();
    case 3: return Pattern::window(n / 3 + 1, 5);
    case 4: return Pattern::block_diagonal(64);
    case 5: return Pattern::causal() & Pattern::window(70, 0);
    case 6: return Pattern::window(9, 9) | Pattern::box({0, 3, 0, n}) | Pattern::box({-n, 2 * n, 0, 4});
    case 7: return Pattern::predicate("odd", [](std::int64_t q, std::int64_t k) { return (q * 7 + k * 3) % 5 < 2; });
    default: return Pattern::causal() & (Pattern::block_diagonal(50) | Pattern::comb(16, 3, 5));
  }
}

template <class T, std::size_t N>
T pick(Random& random, const T (&from)[N]) {
  return from[random.below(static_cast<std::uint32_t>(N))];
}

// Any combination of what the contract has.
Options random_options(std::uint64_t seed, DType dtype) {
  Random random(seed, 11);
  constexpr std::int64_t kLengths[] = {1, 17, 63, 64, 65, 100, 128, 200, 257, 333};
  constexpr std::int64_t kWidths[] = {8, 16, 32, 40, 64, 64, 64, 72, 96, 128, 128, 7, 21, 160, 256};
  constexpr Weight kWeights[] = {Weight::softmax, Weight::softmax, Weight::softmax, Weight::self_adjust,
                                 Weight::rela,    Weight::relu2,   Weight::sigmoid, Weight::exp,
                                 Weight::power,   Weight::taylor};
  constexpr Bias kBiases[] = {Bias::none,
                              Bias::none,
                              Bias::none,
                              Bias::dense,
                              Bias::per_head_broadcast,
                              Bias::per_batch_broadcast,
                              Bias::keys_only,
                              Bias::queries_only,
                              Bias::queries_of_all_heads,
                              Bias::one_per_head};
  constexpr TileSize kTiles[] = {{64, 64}, {64, 64}, {64, 64}, {16, 16}, {32, 48}, {128, 64}};
  Options o;
  o.seed = seed;
  o.dtype = dtype;
  o.batch = 1 + random.below(3);
  o.n_q = pick(random, kLengths);
  o.n_k = random.below(2) == 0 ? o.n_q : pick(random, kLengths);
  o.kv_heads = 1 + random.below(2);
  o.heads = o.kv_heads * (1 + random.below(3));
  o.d_k = pick(random, kWidths);
  o.d_v = random.below(2) == 0 ? o.d_k : pick(random, kWidths);
  o.pattern = pattern_of(random.below(9), o.n_k);
  o.tile = pick(random, kTiles);
  o.weight = pick(random, kWeights);
  o.degree = random.below(2) == 0 ? 2 : 4;
  o.bias = pick(random, kBiases);
  o.bias_hides = random.below(3) == 0;
  o.alibi = random.below(4) == 0;
  if (dtype == DType::f16 && (o.weight == Weight::power || o.weight == Weight::taylor))
    o.alibi = false;  // beyond its range
  o.dropout = random.below(4) == 0 ? 0.25f : 0.0f;
  o.d_lse = has_statistic(o.weight) && random.below(2) == 0;
  o.heads_first = random.below(2) == 0;
  if (random.below(5) == 0) o.step = 2 + random.below(2);
  o.name = "seed" + std::to_string(seed) + "_" + std::string(name_of(dtype));
  return o;
}

std::vector<Options> random_problems() {
  std::vector<Options> all;
  for (DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64})
    for (std::uint64_t seed = 1; seed <= (dtype == DType::bf16 ? 120 : 60); ++seed)
      all.push_back(random_options(seed + 1000 * static_cast<std::uint64_t>(dtype), dtype));
  return all;
}

class RandomProblem : public ::testing::TestWithParam<Options> {};
TEST_P(RandomProblem, AgreesWithPlainLoops) {
  const Options& o = GetParam();
  SCOPED_TRACE("n_q " + std::to_string(o.n_q) + " n_k " + std::to_string(o.n_k) + " heads " + std::to_string(o.heads) +
               "/" + std::to_string(o.kv_heads) + " d " + std::to_string(o.d_k) + " " + std::to_string(o.d_v) +
               " weight " + name_of(o.weight) + " bias " + std::to_string(static_cast<int>(o.bias)) + " tile " +
               std::to_string(o.tile.query) + " dropout " + std::to_string(o.dropout) + " alibi " +
               std::to_string(o.alibi) + " step " + std::to_string(o.step) + " pattern " + o.pattern.text());
  check_case(o);
}
INSTANTIATE_TEST_SUITE_P(All, RandomProblem, ::testing::ValuesIn(random_problems()),
                         [](const auto& info) { return test_name(info.param.name); });

// Adds a problem in every type.
void add_problem(std::vector<Options>& all, const std::string& name, const std::function<void(Options&)>& change) {
  for (DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    Options o;
    o.dtype = dtype;
    o.tile = {64, 64};
    o.d_k = o.d_v = 64;
    change(o);
    o.name = name + "_" + std::string(name_of(dtype));
    all.push_back(o);
  }
}

// What random problems hardly meet.
std::vector<Options> special_problems() {
  std::vector<Options> all;
  const auto add = [&](const std::string& name, const std::function<void(Options&)>& change) {
    add_problem(all, name, change);
  };
  add("no_queries", [](Options& o) { o.n_q = 0; });
  add("no_keys", [](Options& o) { o.n_k = 0; });
  add("long_causal", [](Options& o) { o.n_q = o.n_k = 700, o.pattern = Pattern::causal(), o.heads = o.kv_heads = 1; });
  add("diagonal_blocks",
      [](Options& o) { o.n_q = o.n_k = 500, o.pattern = Pattern::block_diagonal(64), o.d_lse = true; });
  for (const std::int64_t width : {24, 32, 128}) {
    const std::string name = "diagonal_blocks_d" + std::to_string(width);
    add(name, [=](Options& o) {
      o.d_k = o.d_v = width, o.n_q = o.n_k = 450, o.pattern = Pattern::block_diagonal(64), o.heads = o.kv_heads = 3;
    });
    add(name + "_causal", [=](Options& o) {
      o.d_k = width, o.d_v = 64, o.n_q = o.n_k = 256, o.d_lse = true;
      o.pattern = Pattern::block_diagonal(64) & Pattern::causal(), o.heads = o.kv_heads = 2;
    });
  }
  add("short_sequences", [](Options& o) {
    o.n_q = o.n_k = 120, o.heads = o.kv_heads = 2, o.heads_first = true;
    o.pieces = {{0, 0, 1, 0, 1, nullptr},
                {0, 1, 64, 1, 64, nullptr},
                {0, 65, 30, 65, 20, nullptr},
                {0, 95, 25, 85, 35, nullptr}};
  });
  add("longformer", [](Options& o) {
    o.n_q = o.n_k = 600, o.heads = o.kv_heads = 1;
    o.pattern = Pattern::window(60, 60) | Pattern::box({0, 64, 0, 600}) | Pattern::box({0, 600, 0, 64});
  });
  add("packed", [](Options& o) {
    o.n_q = o.n_k = 330, o.pattern = Pattern::causal(), o.alibi = true, o.dropout = 0.2f;
    o.pieces = {{0, 0, 7, 0, 7, nullptr},
                {0, 7, 0, 7, 0, nullptr},
                {0, 7, 240, 7, 240, nullptr},
                {0, 247, 83, 247, 83, nullptr}};
  });
  add("lengths", [](Options& o) {
    o.batch = 3, o.n_q = 140, o.n_k = 144, o.bias = Bias::per_batch_broadcast;
    o.pieces = {{0, 0, 140, 0, 77, nullptr}, {1, 0, 73, 4, 140, nullptr}, {2, 0, 22, 0, 0, nullptr}};
  });
  add("steps_of_keys", [](Options& o) {
    o.n_q = 21, o.n_k = 490, o.alibi = true, o.dropout = 0.3f, o.bias = Bias::per_head_broadcast;
    o.pieces = {{0, 1, 20, 2, 90, nullptr, 1, 5, 7}};
  });
  add("steps_of_queries", [](Options& o) {
    o.batch = 2, o.n_q = 400, o.n_k = 140, o.alibi = true, o.dropout = 0.1f, o.bias = Bias::queries_only,
    o.d_lse = true;
    o.pieces = {{0, 3, 56, 0, 140, nullptr, 7, 1, -4}, {1, 0, 100, 4, 67, nullptr, 4, 2, 0}};
  });
  add("huge", [](Options& o) { o.size = 30.0, o.d_k = 8, o.tolerance = 1000.0; });
  add("wide", [](Options& o) { o.d_k = o.d_v = 128, o.n_q = o.n_k = 150, o.pattern = Pattern::causal(); });
  add("d32", [](Options& o) { o.d_k = o.d_v = 32, o.n_q = o.n_k = 190; });
  add("d32_long", [](Options& o) { o.d_k = o.d_v = 32, o.n_q = o.n_k = 1100, o.heads = 6, o.kv_heads = 2; });
  for (const std::int64_t width : {8, 16, 24, 32, 40, 48, 72, 128}) {
    const std::string name = "d" + std::to_string(width);
    add(name + "_causal", [=](Options& o) {
      o.d_k = width, o.d_v = width == 8 ? 32 : width, o.n_q = o.n_k = 333, o.heads = 4, o.kv_heads = 2, o.d_lse = true;
      o.pattern = Pattern::causal();
    });
    add(name + "_packed", [=](Options& o) {
      o.d_k = o.d_v = width, o.n_q = o.n_k = 330, o.heads_first = true;
      o.pieces = {{0, 0, 1, 0, 1, nullptr}, {0, 1, 246, 1, 246, nullptr}, {0, 247, 83, 247, 83, nullptr}};
    });
  }
  return all;
}

// Every pair with a bias of its own, batch items and heads sharing them or not, and dropout by quads of keys or not.
std::vector<Options> shaped_problems() {
  std::vector<Options> all;
  for (const auto& [name, bias] : {std::pair{"bias_of_pairs", Bias::dense},
                                   {"bias_of_all_heads", Bias::per_head_broadcast},
                                   {"bias_of_all_batches", Bias::per_batch_broadcast}})
    for (const std::int64_t width : {32, 64, 128})
      add_problem(all, name + ("_d" + std::to_string(width)), [=](Options& o) {
        o.batch = 2, o.n_q = 131, o.n_k = 150, o.d_k = o.d_v = width, o.heads = 4, o.kv_heads = 2, o.bias = bias;
        o.bias_hides = width == 64, o.dropout = width == 128 ? 0.0f : 0.2f;
        if (width == 32) o.pattern = Pattern::causal();
      });
  add_problem(all, "dropout_of_rows_off_the_quads", [](Options& o) {
    o.n_q = o.n_k = 150, o.dropout = 0.3f, o.pattern = Pattern::causal();
    o.pieces = {{0, 0, 62, 0, 62, nullptr}, {0, 62, 88, 62, 88, nullptr}};
  });
  return all;
}

class SpecialProblem : public ::testing::TestWithParam<Options> {};
TEST_P(SpecialProblem, AgreesWithPlainLoops) { check_case(GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, SpecialProblem, ::testing::ValuesIn(special_problems()),
                         [](const auto& info) { return test_name(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Shaped, SpecialProblem, ::testing::ValuesIn(shaped_problems()),
                         [](const auto& info) { return test_name(info.param.name); });

// NaN in values and gradients reaches the rows that keep them, and no other.
class HiddenNan : public ::testing::TestWithParam<DType> {};
TEST_P(HiddenNan, DoesNotLeak) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [bias, width] : {std::pair{Bias::none, 64}, {Bias::dense, 64}, {Bias::none, 32}}) {
    Options o;
    o.dtype = GetParam();
    o.tile = {64, 64};
    o.d_k = o.d_v = width;
    o.n_q = o.n_k = 200;
    o.pattern = Pattern::causal();
    o.bias = bias;
    AttentionCase c(o);
    for (std::int64_t x = 0; x < o.d_v; ++x) {
      c.arrays().v.at(0, 150, 0, x) = nan;
      c.arrays().d_o.at(0, 70, 1, x) = nan;
    }
    c.arrays().v.store();
    c.arrays().d_o.store();
    run(c);
    expect_near(c, c.reference());
  }
}
TEST_P(HiddenNan, StaysInItsBlockOfTheDiagonal) {
  for (const std::int64_t width : {32, 64}) {
    Options o;
    o.dtype = GetParam();
    o.tile = {64, 64};
    o.d_k = o.d_v = width;
    o.heads = o.kv_heads = 2;
    o.n_q = o.n_k = 256;
    o.pattern = Pattern::block_diagonal(64) & Pattern::causal();
    AttentionCase c(o);
    for (std::int64_t x = 0; x < width; ++x) {
      c.arrays().v.at(0, 150, 0, x) = std::numeric_limits<double>::quiet_NaN();
      c.arrays().d_o.at(0, 70, 1, x) = std::numeric_limits<double>::quiet_NaN();
    }
    c.arrays().v.store();
    c.arrays().d_o.store();
    run(c);
    expect_near(c, c.reference());
  }
}
TEST_P(HiddenNan, InKeysThatNobodyReads) {
  Options o;
  o.dtype = GetParam();
  o.tile = {64, 64};
  o.d_k = o.d_v = 64;
  o.n_q = o.n_k = 200;
  o.pattern = Pattern::box({0, 200, 0, 130});
  AttentionCase c(o);
  for (std::int64_t x = 0; x < o.d_v; ++x)
    c.arrays().v.at(0, 140, 0, x) = c.arrays().k.at(0, 135, 1, x) = std::numeric_limits<double>::quiet_NaN();
  c.arrays().v.store();
  c.arrays().k.store();
  run(c);
  const Arrays want = c.reference();
  EXPECT_LT(difference(c.arrays().o.values, want.o.values), tolerance(o.dtype));
  for (double x : c.arrays().dq.values) ASSERT_TRUE(std::isfinite(x));
  for (double x : c.arrays().dk.values) ASSERT_TRUE(std::isfinite(x));
  for (double x : c.arrays().dv.values) ASSERT_TRUE(std::isfinite(x));
}
INSTANTIATE_TEST_SUITE_P(All, HiddenNan, ::testing::Values(DType::bf16, DType::f16, DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace fovea::tile::testing
