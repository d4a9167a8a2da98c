// Static sparse mechanisms: limits that are softmax, closed forms, counts of pairs, and wrong settings.

#include "mechanisms/static_sparse/sparse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "unit/mechanisms/mechanism_calls.h"

namespace fovea {
namespace {

class Sparse : public MechanismCalls, public ::testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 37;

  Sparse() : MechanismCalls({1, kTokens, 2, 8}) {}

  // The weights of a head, (n, n), from values that are unit vectors.
  std::vector<double> weights(const char* mechanism, std::int64_t head, const AttentionOptions& o = {}) {
    const Tensor units = Tensor::zeros(context_, {1, kTokens, 2, kTokens}, DType::f64);
    for (std::int64_t i = 0; i < kTokens; ++i)
      for (std::int64_t h = 0; h < 2; ++h) units.data<double>()[(i * 2 + h) * kTokens + i] = 1.0;
    Tape tape(context_, {.record = false});
    return attention(tape, q_, k_, Var(units), Mechanism::parse(mechanism), o)
        .output.value()
        .slice(2, head, head + 1)
        .to_vector<double>();
  }
  // The keys with weight in a row.
  static std::set<std::int64_t> keys(const std::vector<double>& weights, std::int64_t row) {
    std::set<std::int64_t> all;
    for (std::int64_t j = 0; j < kTokens; ++j)
      if (weights[static_cast<std::size_t>(row * kTokens + j)] > 0.0) all.insert(j);
    return all;
  }
};

TEST_F(Sparse, WideSettingsAreFullAttention) {
  for (const bool causal : {false, true})
    for (const char* mechanism :
         {"window:left=99,right=99", "dilated:left=99,right=99,dilation=1", "cascade:window=0", "cascade:window=64",
          "sparse-strided:stride=1", "sparse-strided:stride=50", "sparse-fixed:block=64",
          "sparse-fixed:block=5,summary=5", "longformer:window=40,globals=0",
          "longformer:window=1,globals=99,projections=shared", "bigbird:block=64", "bigbird:block=4,random=99",
          "fixed-encoder:fixed=0", "logsparse:restart=2"}) {
      SCOPED_TRACE(mechanism);
      expect_near(run(mechanism, {.causal = causal}), run("softmax", {.causal = causal}));
    }
  expect_near(run("bigbird:block=13,random=0"), run("softmax"));  // three blocks: the ends are global
}

TEST_F(Sparse, RowsOfTheStridedPatternHaveTheirClosedFormCount) {
  const std::vector<double> w = weights("sparse-strided:stride=6", 0, {.causal = true});
  for (std::int64_t i = 0; i < kTokens; ++i)
    EXPECT_EQ(std::ssize(keys(w, i)), std::min<std::int64_t>(i + 1, 6) + i / 6) << i;
  const std::vector<double> paper = weights("sparse-strided:stride=6,local=paper", 0, {.causal = true});
  EXPECT_EQ(keys(paper, 20), keys(w, 20)) << "the extra key is a stride away";
}

TEST_F(Sparse, SummaryColumnsAreReadByAll) {
  const std::vector<double> w = weights("sparse-fixed:block=8,summary=2", 1);
  EXPECT_EQ(keys(w, 9), (std::set<std::int64_t>{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 22, 23, 30, 31}));
  const std::vector<double> lra = weights("sparse-fixed:block=8,summary=2,columns=lra", 1);
  EXPECT_TRUE(keys(lra, 9).contains(0) && keys(lra, 9).contains(32));
}

TEST_F(Sparse, LogSparseReadsPowersOfTwo) {
  EXPECT_EQ(keys(weights("logsparse", 0, {.causal = true}), 36), (std::set<std::int64_t>{4, 20, 28, 32, 34, 35, 36}));
  for (const char* mechanism : {"logsparse", "logsparse:restart=9"}) {  // gathered rows and tiles agree
    AttentionOptions tiles;
    tiles.pattern = Pattern::full();
    expect_near(run(mechanism), run(mechanism, tiles));
  }
}

TEST_F(Sparse, CascadeAndDilationGrowWithTheLayer) {
  EXPECT_EQ(keys(weights("cascade", 0, {.causal = true, .layer = 0, .layers = 3}), 30).size(), 4u);
  EXPECT_EQ(keys(weights("cascade", 0, {.causal = true, .layer = 2, .layers = 3}), 30).size(), 16u);
  EXPECT_EQ(keys(weights("dilated:left=2,right=0,dilation=1,growth=3", 0, {.layer = 2, .layers = 3}), 30),
            (std::set<std::int64_t>{12, 21, 30}));
  EXPECT_EQ(keys(weights("cascade:factor=1024", 0, {.layer = 900, .layers = 901}), 30).size(), 37u) << "no overflow";
}

TEST_F(Sparse, StarHasARelayAndARing) {
  const std::vector<double> open = weights("star", 0), closed = weights("star:ring=closed", 0);
  EXPECT_EQ(keys(open, 0).size(), 37u);
  EXPECT_EQ(keys(open, 1), (std::set<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(keys(open, 20), (std::set<std::int64_t>{0, 19, 20, 21}));
  EXPECT_EQ(keys(closed, 1), (std::set<std::int64_t>{0, 1, 2, 36}));
  EXPECT_EQ(keys(closed, 36), (std::set<std::int64_t>{0, 1, 35, 36}));
  EXPECT_EQ(keys(weights("star", 0, {.causal = true}), 0).size(), 1u);
  const std::vector<double> zero = weights("star:ring=zero", 0);
  const auto mass = [&](std::int64_t row) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < kTokens; ++j) sum += zero[static_cast<std::size_t>(row * kTokens + j)];
    return sum;
  };
  EXPECT_LT(mass(1), 0.999) << "the missing neighbour takes weight";
  EXPECT_LT(mass(36), 0.999);
  EXPECT_NEAR(mass(20), 1.0, 1e-12);
}

TEST_F(Sparse, GlobalKeysInsideTheWindowCountOnce) {
  for (const char* mechanism : {"longformer:window=3,globals=2,projections=shared",
                                "longformer:window=3,dilation=2,globals=2,projections=shared"}) {
    const std::vector<double> w = weights(mechanism, 0);
    for (std::int64_t i = 0; i < kTokens; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < kTokens; ++j) sum += w[static_cast<std::size_t>(i * kTokens + j)];
      ASSERT_NEAR(sum, 1.0, 1e-12) << mechanism << " row " << i;
    }
    EXPECT_EQ(keys(w, 0).size(), 37u);
    EXPECT_TRUE(keys(w, 30).contains(0) && keys(w, 30).contains(1));
  }
}

TEST_F(Sparse, AllTokensGlobalIsFullAttentionWithTheirProjections) {
  const Var input = random({1, kTokens, 16}, 7);
  const Mechanism mechanism = Mechanism::parse("longformer:window=1,globals=40");
  AttentionOptions options;
  options.input = input;
  for (const std::uint64_t seed : {11, 12, 13}) options.weights.push_back(random({16, 16}, seed));
  Tape tape(context_, {.record = false});
  const auto project = [&](std::size_t i) {
    return reshape(tape, linear(tape, input, options.weights[i]), {1, kTokens, 2, 8});
  };
  const std::vector<double> full =
      attention(tape, project(0), project(1), project(2), Mechanism("softmax")).output.value().to_vector<double>();
  expect_near(attention(tape, q_, k_, v_, mechanism, options).output.value().to_vector<double>(), full);
}

TEST_F(Sparse, BigBirdDrawsSetsOfBlocksForEachHeadAndLayer) {
  const char* mechanism = "bigbird:block=2,random=3";
  const std::vector<double> a = weights(mechanism, 0), again = weights(mechanism, 0), b = weights(mechanism, 1),
                            deeper = weights(mechanism, 0, {.layer = 1, .layers = 2}),
                            reseeded = weights("bigbird:block=2,random=3,seed=1", 0);
  const auto pattern = [](const std::vector<double>& w) {
    std::vector<bool> kept;
    for (const double x : w) kept.push_back(x > 0.0);
    return kept;
  };
  EXPECT_EQ(pattern(a), pattern(again));
  EXPECT_NE(pattern(a), pattern(b));
  EXPECT_NE(pattern(a), pattern(deeper));
  EXPECT_NE(pattern(a), pattern(reseeded));
  for (std::int64_t i = 4; i < kTokens - 5; ++i)  // neither a global block nor next to one; the last block is half
    EXPECT_EQ(keys(a, i).size(), 2u * (4 + 3) + 1) << i;
  EXPECT_EQ(keys(a, 0).size(), 37u);
  EXPECT_EQ(keys(a, 36).size(), 37u);
}

TEST_F(Sparse, CausalBigBirdDoesNotDependOnTheLength) {
  const std::vector<double> whole = run("bigbird:block=2,random=2", {.causal = true});
  const auto part = [](const Var& x) { return Var(x.value().slice(1, 0, 23)); };
  Tape tape(context_, {.record = false});
  const std::vector<double> prefix =
      attention(tape, part(q_), part(k_), part(v_), Mechanism::parse("bigbird:block=2,random=2"), {.causal = true})
          .output.value()
          .to_vector<double>();
  expect_near({whole.begin(), whole.begin() + std::ssize(prefix)}, prefix);
}

TEST_F(Sparse, GivenHeadsFollowTheirFormulas) {
  const Shape shape{1, kTokens, 9, 3};
  const Var q = random(shape, 4), k = random(shape, 5), v = random(shape, 6);
  Tape tape(context_, {.record = false});
  const Tensor o = attention(tape, q, k, v, Mechanism("fixed-encoder")).output.value();
  const auto weigh = [&](std::int64_t head, std::int64_t first, std::int64_t end, auto&& weight, std::int64_t row) {
    for (std::int64_t c = 0; c < 3; ++c) {
      double sum = 0.0, total = 0.0;
      for (std::int64_t j = first; j < end; ++j) {
        sum += weight(j) * v.value().data<double>()[(j * 9 + head) * 3 + c];
        total += weight(j);
      }
      EXPECT_NEAR(o.data<double>()[(row * 9 + head) * 3 + c], sum / total, 1e-12) << head << " " << row;
    }
  };
  const auto rising = [](std::int64_t j) { return std::pow(static_cast<double>(j + 1), 3.0); };
  const auto falling = [](std::int64_t j) { return std::pow(static_cast<double>(kTokens - j), 3.0); };
  for (const std::int64_t i : {2, 17, 34}) {
    weigh(0, i, i + 1, rising, i);
    weigh(1, i - 1, i, rising, i);
    weigh(2, i + 1, i + 2, rising, i);
    weigh(3, 0, i - 1, rising, i);
    weigh(4, i + 2, kTokens, falling, i);
    weigh(5, 0, kTokens, rising, i);
    weigh(6, 0, kTokens, falling, i);
  }
  for (const std::int64_t head : {1, 3}) weigh(head, 0, 1, rising, 0);  // nothing to the left: itself
  for (const std::int64_t head : {2, 4}) weigh(head, kTokens - 1, kTokens, rising, kTokens - 1);
}

TEST_F(Sparse, GivenHeadsHaveTheGradientOfTheirSums) {
  const Shape shape{1, kTokens, 9, 3};
  const Var q = random(shape, 4), k = random(shape, 5), v = random(shape, 6);
  const Tensor seed = random(shape, 8).value();
  for (const char* mechanism : {"fixed-encoder", "fixed-encoder:edge=zero", "fixed-encoder:edge=first"}) {
    v.slot()->grad = Tensor();
    Tape tape(context_);
    tape.backward(attention(tape, q, k, v, Mechanism::parse(mechanism)).output, seed);
    const std::vector<double> dv = v.grad().to_vector<double>();
    for (const std::int64_t head :
         {0, 1, 2, 3, 4, 5, 6})  // linear in v: the derivative along one entry is a difference
      for (const std::int64_t j : {0, 1, 18, 35, 36}) {
        const std::int64_t entry = (j * 9 + head) * 3 + 1;
        double value[2];
        for (int side = 0; side < 2; ++side) {
          v.value().data<double>()[entry] += side == 0 ? 1.0 : -1.0;
          Tape plain(context_, {.record = false});
          const std::vector<double> o =
              attention(plain, q, k, v, Mechanism::parse(mechanism)).output.value().to_vector<double>();
          value[side] = 0.0;
          for (std::size_t i = 0; i < o.size(); ++i) value[side] += o[i] * seed.data<double>()[i];
        }
        EXPECT_NEAR(dv[static_cast<std::size_t>(entry)], value[0] - value[1], 1e-10) << mechanism << head << " " << j;
      }
  }
}

TEST_F(Sparse, QueriesOfNoSequenceLeaveNoGradient) {
  AttentionOptions options;
  options.queries.lengths = {0};
  options.keys.lengths = {kTokens};
  for (const char* mechanism : {"softmax", "window", "sparse-strided:stride=4", "dilated"}) {
    for (const Var* x : {&q_, &k_, &v_}) x->slot()->grad = Tensor();
    Tape tape(context_);
    const Var o = attention(tape, q_, k_, v_, Mechanism::parse(mechanism), options).output;
    tape.backward(o, random(o.shape(), 9).value());
    for (const Var* x : {&q_, &k_, &v_})
      for (const double g : x->grad().to_vector<double>()) ASSERT_EQ(g, 0.0) << mechanism;
  }
}

TEST_F(Sparse, FlopsCountThePairsThatAreKept) {
  const auto pairs = [](const char* text, bool causal) {
    const Mechanism mechanism = Mechanism::parse(text);
    const Sizes sizes{100.0, 2.0, 1.0, 1.0, causal};
    return mechanism.kind().flops(sizes, mechanism).forward / (2.0 * 2.0 * 2.0);
  };
  const auto count = [](bool causal, auto&& keep) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < 100; ++i)
      for (std::int64_t j = 0; j < (causal ? i + 1 : 100); ++j) sum += keep(i, j) ? 1.0 : 0.0;
    return sum;
  };
  for (const bool causal : {false, true}) {
    EXPECT_EQ(pairs("window:left=7,right=2", causal),
              count(causal, [](auto i, auto j) { return i - j <= 7 && j - i <= 2; }));
    EXPECT_EQ(pairs("dilated:left=3,right=3,dilation=4", causal),
              count(causal, [](auto i, auto j) { return (i - j) % 4 == 0 && std::abs(i - j) <= 12; }));
    EXPECT_EQ(pairs("sparse-strided:stride=9", causal),
              count(causal, [](auto i, auto j) { return std::abs(i - j) < 9 || (i - j) % 9 == 0; }));
    EXPECT_EQ(pairs("sparse-fixed:block=11,summary=3", causal),
              count(causal, [](auto i, auto j) { return i / 11 == j / 11 || j % 11 >= 8; }));
    EXPECT_EQ(pairs("star", causal), count(causal, [](auto i, auto j) { return i * j == 0 || std::abs(i - j) <= 1; }));
    EXPECT_EQ(
        pairs("longformer:window=5,dilation=3,globals=4,projections=shared", causal),
        count(causal, [](auto i, auto j) { return i < 4 || j < 4 || ((i - j) % 3 == 0 && std::abs(i - j) <= 15); }));
  }
}

TEST_F(Sparse, StepCachesKeepWhatAWindowReads) {
  const auto held = [&](const char* mechanism, std::int64_t layer) {
    DecodeState state;
    Tape tape(context_, {.record = false});
    AttentionOptions options;
    options.layer = layer;
    options.layers = layer + 1;
    const auto token = [](const Var& x) { return x.value().slice(1, 0, 1); };
    for (int t = 0; t < 400; ++t)
      attention_step(tape, token(q_), token(k_), token(v_), Mechanism::parse(mechanism), state, options);
    return state.held;
  };
  EXPECT_LE(held("window:left=10", 0), 10 + 64);
  EXPECT_LE(held("dilated:left=4,dilation=5", 0), 20 + 64);
  EXPECT_LE(held("cascade", 3), 31 + 64);
  EXPECT_LE(held("longformer:window=9,globals=0", 0), 9 + 64);
  EXPECT_EQ(held("longformer:window=9,projections=shared", 0), 400) << "global keys are at the front";
  EXPECT_EQ(held("sparse-strided:stride=8", 0), 400);
}

TEST_F(Sparse, WrongSettingsAreNamed) {
  const auto error_of = [&](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error_of([] { Mechanism::parse("dilated:dilation=0"); }).find("between 1"), std::string::npos);
  EXPECT_NE(error_of([] { Mechanism::parse("bigbird:block=0"); }).find("between 1"), std::string::npos);
  EXPECT_NE(error_of([] { Mechanism::parse("fixed-encoder:fixed=8"); }).find("between 0 and 7"), std::string::npos);
  EXPECT_NE(error_of([&] { run("longformer"); }).find("input"), std::string::npos);
  EXPECT_NE(error_of([&] { run("bigbird:globals=etc"); }).find("weights"), std::string::npos);
  EXPECT_NE(error_of([&] { run("fixed-encoder", {.alibi = true}); }).find("no ALiBi"), std::string::npos);
  EXPECT_TRUE(Mechanism("longformer").needs_input());
  EXPECT_FALSE(Mechanism::parse("longformer:projections=shared").needs_input());
  EXPECT_FALSE(Mechanism::parse("longformer:globals=0").needs_input());
}

}  // namespace
}  // namespace fovea
