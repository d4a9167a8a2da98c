#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "parallel/attention.h"
#include "support/tensors.h"

// Attention of divided sequences beside that of whole ones: outputs and gradients of q, k, v, weights and input.
namespace fovea::divided::as_one {

using testing::random;
using testing::relative_error;

struct Case {
  std::string mechanism;
  bool causal = false;
  DType dtype = DType::f64;
  std::vector<std::int64_t> lengths = {37, 0, 5, 101};  // packed, odd, some shorter than the ranks are many
  std::int64_t tile = 1, kv_heads = 2;
  std::function<void(AttentionOptions&)> with = {};
  double tolerance = 1e-11;

  std::string text() const {
    return mechanism + (causal ? " causal " : " ") + std::string(name_of(dtype)) + " in tiles of " +
           std::to_string(tile);
  }
};

constexpr std::int64_t kHeads = 4, kKeys = 6, kValues = 5, kWidth = 7;

// Whole tensors, the same on every rank.
struct Whole {
  explicit Whole(const Case& c, const Context& context) {
    for (const std::int64_t n : c.lengths) {
      rows += n;
      sequences.cu_seqlens.push_back(static_cast<std::int32_t>(rows));
    }
    q = random(context, {1, rows, kHeads, kKeys}, 1, c.dtype);
    k = random(context, {1, rows, c.kv_heads, kKeys}, 2, c.dtype);
    v = random(context, {1, rows, c.kv_heads, kValues}, 3, c.dtype);
    input = random(context, {1, rows, kWidth}, 4, c.dtype);
    seed = random(context, {1, rows, kHeads, kValues}, 5, c.dtype);
  }

  Sequences sequences{.lengths = {}, .cu_seqlens = {0}};
  std::int64_t rows = 0;
  Tensor q, k, v, input, seed;
};

struct Got {
  std::vector<Tensor> rows;     // output and gradients of q, k, v, input: (1, rows, ...)
  std::vector<Tensor> weights;  // gradients of the weights
};

template <class Attend>
Got run(Context& context, const Case& c, const std::vector<Tensor>& parts, const Attend& attend) {
  const Mechanism mechanism = Mechanism::parse(c.mechanism);
  Tape tape(context, {.training = true, .stream = 3});
  std::vector<Var> leaves;
  for (std::size_t i = 0; i < 4; ++i) leaves.push_back(Var::leaf(parts[i]));
  AttentionOptions options;
  options.causal = c.causal;
  if (c.with) c.with(options);
  const bool reads = mechanism.needs_input();
  if (reads) options.input = leaves[3];
  options.weights = make_weights(context, mechanism,
                                 {.heads = kHeads,
                                  .kv_heads = c.kv_heads,
                                  .d_k = kKeys,
                                  .d_v = kValues,
                                  .width = reads ? kWidth : 0,
                                  .max_length = 128},
                                 c.dtype);
  const Var output = attend(tape, leaves, mechanism, options);
  tape.backward(output, parts[4]);
  Got got{{output.value()}, {}};
  for (std::size_t i = 0; i < (reads ? 4u : 3u); ++i) got.rows.push_back(leaves[i].grad());
  for (const Var& w : options.weights)
    if (w.needs_grad()) got.weights.push_back(w.grad());
  return got;
}

inline Got of_one(Context& context, const Case& c) {
  const Whole whole(c, context);
  return run(context, c, {whole.q, whole.k, whole.v, whole.input, whole.seed},
             [&](Tape& tape, const std::vector<Var>& x, const Mechanism& mechanism, AttentionOptions options) {
               options.queries = whole.sequences;
               return fovea::attention(tape, x[0], x[1], x[2], mechanism, options).output;
             });
}

// Called by every rank of a group.
inline void check(const dist::Group& group, const Case& c) {
  SCOPED_TRACE(c.text() + " on " + std::to_string(group.size()));
  Context context({.threads = 1, .seed = 7, .memory = {.poison = true}});
  const Got expected = of_one(context, c);
  const Whole whole(c, context);
  const Division division(group, c.lengths, c.tile);
  std::vector<Tensor> parts;
  for (const Tensor* t : {&whole.q, &whole.k, &whole.v, &whole.input, &whole.seed})
    parts.push_back(division.cut(context, *t));
  const Got got =
      run(context, c, parts, [&](Tape& tape, const std::vector<Var>& x, const Mechanism& m, const AttentionOptions& o) {
        return attention(tape, x[0], x[1], x[2], m, o, division).output;
      });
  for (std::size_t i = 0; i < expected.rows.size(); ++i)
    EXPECT_LT(relative_error(division.join(context, got.rows[i]), expected.rows[i]), c.tolerance) << "tensor " << i;
  for (std::size_t i = 0; i < expected.weights.size(); ++i) {
    group.all_reduce(got.weights[i]);
    EXPECT_LT(relative_error(got.weights[i], expected.weights[i]), c.tolerance) << "weight " << i;
  }
}

// A mechanism of each class, causal and not, in f64 and f32.
inline std::vector<Case> cases(const std::vector<std::string>& mechanisms, bool only_causal = false) {
  std::vector<Case> all;
  for (const std::string& mechanism : mechanisms)
    for (const bool causal : {false, true}) {
      if (only_causal && !causal) continue;
      all.push_back({.mechanism = mechanism, .causal = causal});
      all.push_back({.mechanism = mechanism, .causal = causal, .dtype = DType::f32, .tile = 8, .tolerance = 5e-5});
    }
  return all;
}

}  // namespace fovea::divided::as_one
