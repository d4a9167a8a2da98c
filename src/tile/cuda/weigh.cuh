#pragma once

#include "core/cuda/storage.cuh"
#include "policy/alibi.h"
#include "policy/dropout.h"
#include "policy/pointwise_weight.h"
#include "policy/row_rule.h"
#include "policy/softmax.h"
#include "tile/cuda/view.h"

// From a product to a score, from a score to a weight and its gradient: the scalar part of every kernel.
namespace fovea::tile::cuda {

// A pair of local rows of a piece.
struct Pair {
  std::int64_t query, key;
};

// What changes a score, for one piece and head.
template <class R>
struct Modifier {
  const PieceView& piece;
  R scale, unit, slope = 0;
  const R* bias = nullptr;
  std::int64_t bias_query = 0, bias_key = 0;
  bool has_alibi = false;

  __device__ Modifier(const Call& call, const PieceView& piece, std::int32_t head)
      : piece(piece), scale(static_cast<R>(call.scale * call.unit)), unit(static_cast<R>(call.unit)) {
    if (call.alibi != nullptr) {
      has_alibi = true;
      slope = static_cast<R>(call.alibi[head]) * unit;
    }
    if (call.bias.data != nullptr) {
      bias = static_cast<const R*>(call.bias.data) +
             (piece.batch * call.bias.batch + head * call.bias.head + piece.q0 * call.bias.query +
              piece.k0 * call.bias.key + piece.bias_at);
      bias_query = call.bias.query * piece.q_step;
      bias_key = call.bias.key * piece.k_step;
    }
  }

  // The score of a product q.k. Explicit steps: every kernel must come to the same bits.
  __device__ R operator()(R product, Pair at) const {
    R s = product * scale;
    if (bias != nullptr) {  // -infinity hides a pair even when its score is NaN
      const R b = bias[at.query * bias_query + at.key * bias_key];
      s = b == -math::kInfinity<R> ? b : fma(unit, b, s);
    }
    if (has_alibi) s = Alibi::apply(s, slope, static_cast<R>(piece.distance(at.query, at.key)));
    return s;
  }
};

// An element of the output, and what it loses there.
template <class R>
__device__ void store_output_as(const Call& call, std::int64_t at, std::int64_t rest_at, R value) {
  store_as<R>(call.out.data, call.output_type, at, value);
  if (call.out_rest.data == nullptr) return;
  const R stored = load_as<R>(call.out.data, call.output_type, at);
  store_as<R>(call.out_rest.data, call.output_type, rest_at, value - stored);
}

// Dropout of one piece and head: 0, or what kept weights are multiplied by.
template <class R>
struct Dropper {
  const Call& call;
  const PieceView& piece;
  PairDropout pairs;
  R factor;

  __device__ Dropper(const Call& call, const PieceView& piece, std::int32_t head)
      : call(call),
        piece(piece),
        pairs(call.dropout.shifted_by(call.drop_shift).at(piece.batch, call.first_head + head)),
        factor(static_cast<R>(call.drop_scale)) {}
  __device__ R operator()(Pair at) const { return pairs.keep(query_row(at), key_row(at)) ? factor : R{0}; }
  // Of four neighbouring keys: see PairDropout.
  __device__ Philox words(Pair at) const {
    return pairs.words(static_cast<std::uint32_t>(query_row(at)), static_cast<std::uint32_t>(key_row(at) / 4));
  }
  __device__ R factor_of(std::uint32_t word) const { return word >= pairs.threshold ? factor : R{0}; }
  // Two neighbouring keys, which mostly share such a call.
  __device__ void draw(Pair at, R (&factors)[2]) const {
    const std::int64_t first = key_row(at), second = first + piece.k_step;
    const Philox own = words(at);
    factors[0] = pick(own, first % 4);
    factors[1] = pick(second / 4 == first / 4 ? own : words({at.query, at.key + 1}), second % 4);
  }

 private:
  __device__ std::int64_t query_row(Pair at) const { return call.first_query + piece.query_row(at.query); }
  __device__ std::int64_t key_row(Pair at) const { return call.first_key + piece.key_row(at.key); }
  __device__ R pick(const Philox& words, std::int64_t i) const {  // a register array has no run-time index
    return factor_of(i == 0 ? words.word[0] : (i == 1 ? words.word[1] : (i == 2 ? words.word[2] : words.word[3])));
  }
};

template <class R>
struct Weighed {
  R weight, gradient;  // of the natural score
};

// Weights with a running maximum: softmax and its self-adjusting form.
template <class R>
struct Shares {
  static constexpr bool kHasTop = true;
  using Terms = RowStatistic<R>;
  bool self_adjust;

  __device__ explicit Shares(const Call& call) : self_adjust(call.self_adjust) {}
  __device__ R weight(R score, R share) const { return self_adjust ? SelfAdjust::weight(score, share) : share; }
  __device__ Weighed<R> vjp(R score, R grad, const Terms& row, Pair) const {
    const R share = Softmax::again(score, row.reopened);
    const R through =
        self_adjust ? SelfAdjust::vjp(score, share, grad, row.delta) : Softmax::vjp(score, share, grad, row.delta);
    return {weight(score, share), through};
  }
  // Rows beyond the sequence.
  __device__ static Terms nothing() { return {math::kInfinity<R>, R{0}}; }
};

// Weights of their own score alone.
template <class R>
struct Points {
  static constexpr bool kHasTop = false;
  struct Terms {};
  Weight kind;
  SigmoidWeight sigmoid;
  PolynomialWeight polynomial;

  __device__ explicit Points(const Call& call) : kind(call.weight), sigmoid{call.offset} {
    polynomial = kind == Weight::power ? PolynomialWeight::power(call.degree) : PolynomialWeight::taylor(call.degree);
  }
  __device__ R weigh(R score, const Terms&, Pair) const {
    switch (kind) {
      case Weight::rela: return Rela::weigh(score);
      case Weight::relu2: return Relu2::weigh(score);
      case Weight::sigmoid: return sigmoid.weigh(score);
      case Weight::exp: return ExponentialWeight::weigh(score);
      default: return polynomial.weigh(score);
    }
  }
  __device__ Weighed<R> vjp(R score, R grad, const Terms& row, Pair at) const {
    const R weight = weigh(score, row, at);
    switch (kind) {
      case Weight::rela: return {weight, Rela::vjp(score, weight, grad)};
      case Weight::relu2: return {weight, Relu2::vjp(score, weight, grad)};
      case Weight::sigmoid: return {weight, sigmoid.vjp(score, weight, grad)};
      case Weight::exp: return {weight, ExponentialWeight::vjp(score, weight, grad)};
      default: return {weight, polynomial.vjp(score, weight, grad)};
    }
  }
  __device__ static Terms nothing() { return {}; }
};

// Weights of a row rule, once the row's terms are known:
//   top_k                   bound; of scores equal to it, keys up to `first`; then softmax by top and factor
//   sparsemax, entmax15     top, bound
//   margin                  key `first` pays; then softmax by top and factor
//   self_adjust_normalized  top, factor, low, bound (the inverse width); to_top goes to key `first`, to_bottom to
//   `second`
template <class R>
struct RuleWeights {
  static constexpr bool kHasTop = false;
  using Terms = RowTerms<R>;
  RowRuleKind kind;
  R margin;

  __device__ explicit RuleWeights(const Call& call) : kind(call.rule.kind), margin(static_cast<R>(call.rule.margin)) {}

  __device__ static R softmax(R score, const Terms& row) {
    return math::exp2_low((score - row.top) * math::kLog2e<R>) * row.factor;
  }
  __device__ R weigh(R score, const Terms& row, Pair at) const {
    const auto key = static_cast<std::int32_t>(at.key);
    switch (kind) {
      case RowRuleKind::top_k:
        return score < row.bound || (score == row.bound && key > row.first) ? R{0} : softmax(score, row);
      case RowRuleKind::sparsemax: return Sparsemax::weigh(score - row.top, row.bound);
      case RowRuleKind::entmax15: return Entmax15::weigh((score - row.top) / 2, row.bound);
      case RowRuleKind::margin: return softmax(key == row.first ? score - margin : score, row);
      default: return adjust(row).weigh(score, softmax(score, row));
    }
  }
  __device__ Weighed<R> vjp(R score, R grad, const Terms& row, Pair at) const {
    const R w = weigh(score, row, at);
    switch (kind) {
      case RowRuleKind::sparsemax: return {w, Sparsemax::vjp(w, grad, row.mean)};
      case RowRuleKind::entmax15: return {w, Entmax15::vjp(sqrt(w), grad, row.mean)};
      case RowRuleKind::self_adjust_normalized: return {w, vjp_adjusted(score, grad, row, at)};
      default: return {w, Softmax::vjp(R{0}, w, grad, row.mean)};
    }
  }
  __device__ static SelfAdjustNormalized<R> adjust(const Terms& row) { return {row.low, row.bound}; }
  __device__ static R vjp_adjusted(R score, R grad, const Terms& row, Pair at) {
    const auto key = static_cast<std::int32_t>(at.key);
    return adjust(row).vjp(score, softmax(score, row), grad, row.mean) + (key == row.second ? row.to_bottom : R{0}) +
           (key == row.first ? row.to_top : R{0});
  }
  // A row without keys weighs nothing: all its scores are masked.
  __device__ static Terms nothing() { return {R{0}, R{0}, math::kInfinity<R>, R{0}, R{0}, R{0}, R{0}, -1, -1}; }
};

}  // namespace fovea::tile::cuda
