#include <gtest/gtest.h>

#include "dist/threads.h"
#include "parallel/ring.h"
#include "parallel/traffic.h"
#include "support/expect_error.h"
#include "unit/parallel/as_one.h"

namespace fovea::divided {
namespace {

using as_one::Case;
using testing::random;

void expect_as_one(const Case& c) {
  for (const int ranks : {1, 2, 4})
    dist::run_threads(ranks, [&](const dist::Group& group) { as_one::check(group, c); });
}

TEST(Divided, KeysTravelAsTheyAreRead) {
  for (const Case& c : as_one::cases({"softmax", "softmax:score=cosine", "relu2", "sigmoid", "diag:block=8",
                                      "diag:block=8,weights=rela", "window:left=6,right=3",
                                      "longformer:window=4,globals=2,projections=shared"}))
    expect_as_one(c);
}

TEST(Divided, StatesTravel) {
  for (const Case& c : as_one::cases({"linear", "norm", "norm:map=relu,norm=rms-a"})) expect_as_one(c);
  for (const Case& c : as_one::cases({"lightning", "retnet", "gla"}, true)) expect_as_one(c);
}

TEST(Divided, OptionsGoByTheWholeSequence) {
  const auto check = [](const char* mechanism, const std::function<void(AttentionOptions&)>& with) {
    for (const bool causal : {false, true}) expect_as_one({.mechanism = mechanism, .causal = causal, .with = with});
  };
  check("softmax", [](AttentionOptions& o) { o.alibi = true; });
  check("softmax", [](AttentionOptions& o) { o.rotary = Rotary{}; });
  check("norm", [](AttentionOptions& o) { o.rotary = Rotary{}; });
  check("softmax", [](AttentionOptions& o) { o.dropout_p = 0.3; });
  check("window:left=6,right=3", [](AttentionOptions& o) { o.dropout_p = 0.3; });
  check("softmax", [](AttentionOptions& o) { o.window = Window{9, 2}; });
  check("softmax", [](AttentionOptions& o) { o.pattern = Pattern::comb(3, 0, 2); });
}

TEST(Divided, HalfNumbersAreJoinedInF32) {
  for (const char* mechanism : {"softmax", "norm"})
    expect_as_one({.mechanism = mechanism, .causal = true, .dtype = DType::bf16, .tolerance = 3e-2});
}

// docs/scale.md: nothing where blocks lie on one rank, a halo of a window, a state whatever the length.
TEST(Divided, NoMoreTravelsThanIsNamed) {
  dist::run_threads(4, [](const dist::Group& group) {
    const Division division(group, {4 * 64 + 9}, 8);
    const int r = group.rank();
    EXPECT_EQ(ring_rows({.pattern = Pattern::block_diagonal(8)}, division), 0);
    const std::int64_t left = r > 0 ? 5 : 0, right = r < 3 ? 2 : 0;
    EXPECT_EQ(ring_rows({.pattern = Pattern::window(5, 2)}, division), left + right);
    EXPECT_EQ(ring_rows({.pattern = Pattern::causal()}, division), division.begin(0, r));
    EXPECT_EQ(ring_rows({}, division), division.length(0) - division.count(0, r));
  });
  std::vector<std::uint64_t> sent;
  for (const std::int64_t n : {64, 640}) {
    dist::run_threads(2, [&](const dist::Group& group) {
      Context context({.threads = 1});
      const Division division(group.split(0, "sequence"), {n});
      Tape tape(context);
      const Tensor x = random(context, {1, division.rows(), 2, 4}, 1, DType::f32);
      attention(tape, x, x, x, Mechanism::parse("norm"), {.causal = true}, division);
      if (group.rank() == 0) sent.push_back(division.ranks().traffic().at("all_gather").sent);
    });
  }
  EXPECT_EQ(sent[0], sent[1]);
  dist::run_threads(4, [](const dist::Group& group) {
    Context context({.threads = 1});
    const Division division(group.split(0, "sequence"), {45});
    Tape tape(context);
    const Var q = Var::leaf(random(context, {1, division.rows(), 4, 6}, 1, DType::f32)),
              k = Var::leaf(random(context, {1, division.rows(), 2, 6}, 2, DType::f32)),
              v = Var::leaf(random(context, {1, division.rows(), 2, 5}, 3, DType::f32));
    const Var y = attention(tape, q, k, v, Mechanism::parse("topk"), {}, division).output;
    const auto got = static_cast<std::uint64_t>(45 - division.rows()) * (4 * 6 + 2 * (6 + 5)) * sizeof(float);
    EXPECT_EQ(division.ranks().traffic().at("all_gather").received, got);
    tape.backward(y, random(context, y.shape(), 4, DType::f32));
    EXPECT_EQ(division.ranks().traffic().at("reduce_scatter").sent, got);
  });
  EXPECT_EQ(sent[0], 2u * 4 * 4 * sizeof(double));  // heads, d_k, d_v: in f64
}

// What fovea plan counts with: on the rank that gets most, byte for byte.
TEST(Divided, TravelsAsItsClosedForm) {
  for (const char* name : {"softmax", "relu2", "window:left=6,right=3", "diag:block=8", "linear", "norm", "retnet",
                           "topk", "linformer:slots=9"})
    for (const bool causal : {true, false}) {
      const Mechanism mechanism = Mechanism::parse(name);
      if (!mechanism.supports(causal ? Feature::causal : Feature::bidirectional)) continue;
      constexpr int kRanks = 3;
      constexpr std::int64_t kLength = 50, kHeads = 2, kWidth = 4;
      std::vector<double> got(kRanks);
      dist::run_threads(kRanks, [&](const dist::Group& group) {
        Context context({.threads = 1});
        const Division division(group.split(0, "sequence"), {kLength});
        Tape tape(context);
        const Shape shape{1, division.rows(), kHeads, kWidth};
        const auto leaf = [&](int seed) { return Var::leaf(random(context, shape, seed, DType::f32)); };
        AttentionOptions options{.causal = causal};
        options.weights = make_weights(
            context, mechanism, {.heads = kHeads, .kv_heads = kHeads, .d_k = kWidth, .d_v = kWidth, .max_length = 64},
            DType::f32);
        const Var y = attention(tape, leaf(1), leaf(2), leaf(3), mechanism, options, division).output;
        tape.backward(sum(tape, y));
        for (const auto& [operation, traffic] : division.ranks().traffic())
          got[static_cast<std::size_t>(group.rank())] += static_cast<double>(traffic.received);
      });
      const Traffic wanted = traffic(
          mechanism,
          {.length = kLength, .heads = kHeads, .kv_heads = kHeads, .d_k = kWidth, .d_v = kWidth, .causal = causal},
          kRanks);
      EXPECT_EQ(*std::max_element(got.begin(), got.end()), wanted.forward + wanted.backward) << name << causal;
    }
}

TEST(Divided, SlotsAreAddedUp) {
  for (const char* mechanism : {"linformer:slots=8", "linformer:slots=8,sharing=kv"})
    expect_as_one({.mechanism = mechanism});
  expect_as_one({.mechanism = "linformer:slots=8,sharing=none", .kv_heads = 4});
  expect_as_one({.mechanism = "linformer:slots=8", .dtype = DType::f32, .tolerance = 5e-5});
  expect_as_one({.mechanism = "linformer:slots=8", .dtype = DType::bf16, .tolerance = 3e-2});
  expect_as_one({.mechanism = "linformer:slots=8", .with = [](AttentionOptions& o) { o.dropout_p = 0.3; }});
}

// Every mechanism has a form: these gather all rows.
TEST(Divided, RowsTravelWhereNothingLessWillDo) {
  for (const char* mechanism : {"reformer", "performer", "nystrom", "diag:tail=zeros", "additive"}) {
    EXPECT_EQ(travels(Mechanism::parse(mechanism), {}), Travels::rows) << mechanism;
    expect_as_one({.mechanism = mechanism, .lengths = {37, 5, 61}});
  }
  expect_as_one({.mechanism = "transformer-xl", .causal = true, .lengths = {37, 5, 61}});
}

TEST(Divided, WhatHasNoFormIsNamed) {
  const auto attempt = [](const char* mechanism, const AttentionOptions& options) {
    Context context({.threads = 1});
    const Division division(dist::Group(), {8});
    Tape tape(context);
    const Tensor x = random(context, {1, 8, 2, 4}, 1, DType::f32);
    attention(tape, x, x, x, Mechanism::parse(mechanism), options, division);
  };
  AttentionOptions masked;
  Context context({.threads = 1});
  masked.mask = Tensor::zeros(context, {1, 1, 8, 8}, DType::u8);
  EXPECT_ERROR(attempt("softmax", masked), ErrorCode::unsupported, "a bias or a mask for pairs", "softmax x sequence",
               "does not divide sequences");
}

}  // namespace
}  // namespace fovea::divided
