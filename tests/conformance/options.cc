#include <algorithm>
#include <cmath>

#include "conformance/suite.h"
#include "support/draws.h"

namespace fovea::conformance {
namespace {

Var random_leaf(Context& context, const Shape& shape, DType dtype, std::uint64_t seed) {
  Random draws(seed, 99);
  return Var::leaf(testing::random(context, shape, draws, dtype));
}

void causal(Context&, Trial& s, DType) { s.options.causal = true; }

void cross_short(Context&, Trial& s, DType) { s.n_q = 7; }
void cross_long(Context&, Trial& s, DType) { s.n_k = 11; }
void causal_short(Context&, Trial& s, DType) {
  s.n_q = 7;
  s.options.causal = true;
}
void causal_long(Context&, Trial& s, DType) {  // the first queries see no key
  s.n_k = 11;
  s.options.causal = true;
}

void top_left_long(Context&, Trial& s, DType) {  // the last queries stand on the last key
  s.n_k = 11;
  s.options.causal = true;
  s.options.align = Align::top_left;
}

void padded(Context&, Trial& s, DType) {
  s.batch = 3;
  s.options.queries.lengths = {19, 8, 0};
}
void padded_causal(Context& c, Trial& s, DType d) {
  padded(c, s, d);
  s.options.causal = true;
}
void packed(Context&, Trial& s, DType) {
  s.batch = 1;
  s.options.queries.cu_seqlens = {0, 5, 5, 6, 17};  // an empty one, one of a single token, rows to spare
}
void packed_causal(Context& c, Trial& s, DType d) {
  packed(c, s, d);
  s.options.causal = true;
}
void top_left_packed(Context& c, Trial& s, DType d) {
  packed_causal(c, s, d);
  s.n_k = 14;
  s.options.keys.cu_seqlens = {0, 2, 5, 6, 14};
  s.options.align = Align::top_left;
}
void packed_full(Context&, Trial& s, DType) {  // to the last row
  s.batch = 1;
  s.options.queries.cu_seqlens = {0, 7, 8, 19};
}
void padded_cross(Context&, Trial& s, DType) {
  s.n_k = 13;
  s.options.queries.lengths = {19, 4};
  s.options.keys.lengths = {6, 13};
}

void dropout(Context&, Trial& s, DType) {
  s.options.dropout_p = 0.3;
  s.training = true;
}

void bias_full(Context& c, Trial& s, DType wide) {
  s.options.bias = random_leaf(c, {s.batch, s.heads, s.n_q, s.n_k}, wide, 5);
}
void bias_heads(Context& c, Trial& s, DType wide) {
  s.options.bias = random_leaf(c, {1, s.heads, s.n_q, s.n_k}, wide, 5);
}
void bias_shared(Context& c, Trial& s, DType wide) { s.options.bias = random_leaf(c, {1, 1, s.n_q, s.n_k}, wide, 5); }
void bias_keys(Context& c, Trial& s, DType wide) { s.options.bias = random_leaf(c, {s.batch, 1, 1, s.n_k}, wide, 5); }

void bias_packed(Context& c, Trial& s, DType wide) {
  packed_full(c, s, wide);
  bias_full(c, s, wide);
}
void bias_packed_keys(Context& c, Trial& s, DType wide) {
  packed_full(c, s, wide);
  bias_keys(c, s, wide);
}

void diagonals(Context& c, Trial& s, DType wide) {
  s.options.diagonal_bias = random_leaf(c, {1, s.heads, 2 * std::max(s.n_q, s.n_k) - 1}, wide, 5);
}
void diagonals_shared(Context& c, Trial& s, DType wide) {  // and longer than they need be
  s.options.diagonal_bias = random_leaf(c, {s.batch, 1, 49}, wide, 5);
}
void diagonals_padded_cross(Context& c, Trial& s, DType wide) {
  padded_cross(c, s, wide);
  diagonals(c, s, wide);
}
void diagonals_packed_causal(Context& c, Trial& s, DType wide) {
  packed_causal(c, s, wide);
  diagonals(c, s, wide);
}

void mask(Context& c, Trial& s, DType) {
  Random random(11);
  std::vector<std::uint8_t> keep(static_cast<std::size_t>(s.batch * s.n_q * s.n_k));
  for (auto& bit : keep) bit = random.below(3) != 0;
  for (std::int64_t j = 0; j < s.n_k; ++j) keep[static_cast<std::size_t>(2 * s.n_k + j)] = 0;  // an empty row
  s.options.mask = Tensor::from<std::uint8_t>(c, {s.batch, 1, s.n_q, s.n_k}, keep);
}
void mask_and_bias(Context& c, Trial& s, DType wide) {
  bias_heads(c, s, wide);
  mask(c, s, wide);
}

void window(Context&, Trial& s, DType) { s.options.window = Window{3, 2}; }
void window_causal(Context&, Trial& s, DType) {
  s.options.window = Window{4, -1};
  s.options.causal = true;
}
void pattern(Context&, Trial& s, DType) {
  s.options.pattern =
      Pattern::predicate("checkers", [](std::int64_t i, std::int64_t j) { return (i + 2 * j) % 3 != 0; });
}
void alibi(Context&, Trial& s, DType) { s.options.alibi = true; }
void rotary(Context&, Trial& s, DType) { s.options.rotary = Rotary{}; }
void rotary_causal(Context&, Trial& s, DType) {
  s.options.rotary = Rotary{.halves = true};
  s.options.causal = true;
  s.n_q = 7;
}
void lse(Context&, Trial& s, DType) { s.options.return_lse = true; }

void state(Context&, Trial& s, DType) {
  s.with_state = true;
  s.options.final_state = true;
}
void state_causal(Context& c, Trial& s, DType wide) {
  state(c, s, wide);
  s.options.causal = true;
}
void final_state(Context&, Trial& s, DType) {
  s.options.final_state = true;
  s.options.causal = true;
}

void one_token(Context&, Trial& s, DType) { s.n_q = s.n_k = 1; }
void one_head(Context&, Trial& s, DType) {
  s.heads = s.kv_heads = 1;
  s.batch = 1;
}
void many_rows(Context&, Trial& s, DType) {  // several tiles and chunks
  s.batch = 1;
  s.n_q = s.n_k = 203;
}
void many_rows_causal(Context& c, Trial& s, DType d) {
  many_rows(c, s, d);
  s.options.causal = true;
}
void wide_heads(Context&, Trial& s, DType) {
  s.d_k = 64;
  s.d_v = 80;
}
void padded_wide(Context&, Trial& s, DType) {  // sequences in tiles of different sizes
  s.n_q = s.n_k = 90;
  s.heads = s.kv_heads = 1;
  s.d_k = 128;
  s.d_v = 80;
  s.options.queries.lengths = {80, 1};
}
void scaled(Context&, Trial& s, DType) { s.options.scale = 0.7; }
void scaled_causal(Context& c, Trial& s, DType d) {
  scaled(c, s, d);
  s.options.causal = true;
}

using F = Feature;

}  // namespace

const std::vector<OptionCase>& option_cases() {
  static const std::vector<OptionCase> kCases = {
      {"plain", {F::bidirectional}, [](Context&, Trial&, DType) {}},
      {"causal", {F::causal}, causal},
      {"one_token", {F::bidirectional}, one_token},
      {"one_head", {F::bidirectional}, one_head},
      {"many_rows", {F::bidirectional}, many_rows},
      {"many_rows_causal", {F::causal}, many_rows_causal},
      {"wide_heads", {F::bidirectional}, wide_heads},
      {"padded_wide", {F::bidirectional, F::padding}, padded_wide},
      {"scaled", {F::bidirectional, F::scale}, scaled},
      {"scaled_causal", {F::causal, F::scale}, scaled_causal},
      {"cross_short", {F::bidirectional, F::cross}, cross_short},
      {"cross_long", {F::bidirectional, F::cross}, cross_long},
      {"causal_short", {F::causal, F::cross}, causal_short},
      {"causal_long", {F::causal, F::cross}, causal_long},
      {"top_left_long", {F::causal, F::cross}, top_left_long},
      {"top_left_packed", {F::causal, F::cross, F::packed}, top_left_packed},
      {"padded", {F::bidirectional, F::padding}, padded},
      {"padded_causal", {F::causal, F::padding}, padded_causal},
      {"padded_cross", {F::bidirectional, F::padding, F::cross}, padded_cross},
      {"packed", {F::bidirectional, F::packed}, packed},
      {"packed_causal", {F::causal, F::packed}, packed_causal},
      {"packed_full", {F::bidirectional, F::packed}, packed_full},
      {"dropout", {F::bidirectional, F::dropout}, dropout},
      {"bias_full", {F::bidirectional, F::bias}, bias_full},
      {"bias_heads", {F::bidirectional, F::bias}, bias_heads},
      {"bias_shared", {F::bidirectional, F::bias}, bias_shared},
      {"bias_keys", {F::bidirectional, F::bias}, bias_keys},
      {"bias_packed", {F::bidirectional, F::bias, F::packed}, bias_packed},
      {"bias_packed_keys", {F::bidirectional, F::bias, F::packed}, bias_packed_keys},
      {"diagonals", {F::bidirectional, F::bias}, diagonals},
      {"diagonals_shared", {F::bidirectional, F::bias}, diagonals_shared},
      {"diagonals_padded_cross", {F::bidirectional, F::bias, F::padding, F::cross}, diagonals_padded_cross},
      {"diagonals_packed_causal", {F::causal, F::bias, F::packed}, diagonals_packed_causal},
      {"mask", {F::bidirectional, F::bias}, mask},
      {"mask_and_bias", {F::bidirectional, F::bias}, mask_and_bias},
      {"window", {F::bidirectional, F::window}, window},
      {"window_causal", {F::causal, F::window}, window_causal},
      {"pattern", {F::bidirectional, F::pattern}, pattern},
      {"alibi", {F::bidirectional, F::alibi}, alibi},
      {"rotary", {F::bidirectional, F::rotary}, rotary},
      {"rotary_causal", {F::causal, F::cross, F::rotary}, rotary_causal},
      {"lse", {F::bidirectional, F::lse}, lse},
      {"state", {F::bidirectional, F::state}, state},
      {"state_causal", {F::causal, F::state}, state_causal},
      {"final_state", {F::causal, F::state}, final_state},
  };
  return kCases;
}

Trial make_trial(Context& context, const OptionCase& option, const Mechanism& mechanism, DType dtype) {
  const DType wide = wide_type(dtype);
  Trial trial;
  fit(mechanism, trial);
  option.apply(context, trial, wide);
  if (!trial.with_state) return trial;
  Trial probe = trial;  // the width of a state is the mechanism's business
  probe.n_q = probe.n_k = 1;
  Tape tape(context, {.record = false});
  const Shape shape =
      run(context, tape, random_inputs(context, mechanism, probe, dtype, 1), mechanism, probe).final_state.shape();
  trial.options.initial_state = random_leaf(context, shape, wide, 17);
  // Positive, as sums of positive features are: a denominator must not pass through 0.
  edit(trial.options.initial_state.value(), [](double x, std::size_t) { return std::abs(x); });
  return trial;
}

}  // namespace fovea::conformance
