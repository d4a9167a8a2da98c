#include <gtest/gtest.h>

#include "dist/threads.h"
#include "parallel/ring.h"
#include "support/expect_error.h"
#include "unit/parallel/as_one.h"

namespace fovea::parallel {
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
  EXPECT_EQ(sent[0], 2u * 4 * 4 * sizeof(double));  // heads, d_k, d_v: in f64
}

TEST(Divided, WhatHasNoFormIsNamed) {
  const auto attempt = [](const char* mechanism, const AttentionOptions& options) {
    Context context({.threads = 1});
    const Division division(dist::Group(), {8});
    Tape tape(context);
    const Tensor x = random(context, {1, 8, 2, 4}, 1, DType::f32);
    attention(tape, x, x, x, Mechanism::parse(mechanism), options, division);
  };
  EXPECT_ERROR(attempt("sinkhorn", {}), ErrorCode::unsupported, "has no form for divided sequences",
               "sinkhorn x sequence", "softmax, relu2");
  EXPECT_ERROR(attempt("diag:tail=zeros", {}), ErrorCode::unsupported, "keys of zeros", "", "");
  AttentionOptions masked;
  Context context({.threads = 1});
  masked.mask = Tensor::zeros(context, {1, 1, 8, 8}, DType::u8);
  EXPECT_ERROR(attempt("softmax", masked), ErrorCode::unsupported, "with a bias or a mask", "", "");
}

}  // namespace
}  // namespace fovea::parallel
