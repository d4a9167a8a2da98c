#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "attention_case.h"
#include "reference/row_rules.h"
#include "tile/row_rule.h"

// An attention problem run under a row rule, and its outputs by plain loops in double.
namespace fovea::tile::testing {

inline const char* name_of(RowRuleKind kind) {
  switch (kind) {
    case RowRuleKind::top_k: return "top_k";
    case RowRuleKind::sparsemax: return "sparsemax";
    case RowRuleKind::entmax15: return "entmax15";
    case RowRuleKind::margin: return "margin";
    case RowRuleKind::self_adjust_normalized: return "self_adjust_normalized";
  }
  return "";
}

// One of each kind; the two targets of a margin and the two derivatives of self_adjust are rules of their own.
inline std::vector<RowRule> all_rules() {
  return {{.kind = RowRuleKind::top_k, .k = 5},
          {.kind = RowRuleKind::sparsemax},
          {.kind = RowRuleKind::entmax15},
          {.kind = RowRuleKind::margin, .margin = 0.7, .training = true},
          {.kind = RowRuleKind::margin, .margin = 0.4, .target = MarginTarget::diagonal, .training = true},
          {.kind = RowRuleKind::self_adjust_normalized}};
}

class RuleCase {
 public:
  RuleCase(const Options& options, RowRule rule) : case_(options), rule_(rule) {}

  Arrays& arrays() { return case_.arrays(); }
  const Options& options() const { return case_.options(); }
  const RowRule& rule() const { return rule_; }
  AttentionCase& attention() { return case_; }
  void store() {
    for (Field* f : {&arrays().q, &arrays().k, &arrays().v, &arrays().d_o}) f->store();
    case_.store_bias();
  }

  void run_forward(const Context& context) {
    Arrays& a = arrays();
    rule_forward<Device::cpu>(context, case_.problem(), rule_, {a.q.in(), a.k.in(), a.v.in(), a.o.out(), {}});
    a.o.load();
  }

  void run_backward(const Context& context) {
    Arrays& a = arrays();
    const Problem problem = case_.problem();
    std::vector<std::byte> d_bias(a.bias.size() * wide_size(), std::byte{0xff});  // NaN until written
    if (!case_.options().pieces.empty() && !covers()) std::fill(d_bias.begin(), d_bias.end(), std::byte{0});
    Backward io{a.q.in(), a.k.in(), a.v.in(), {}, {}, a.d_o.in(), {}, a.dq.out(), a.dk.out(), a.dv.out(), {}};
    if (!d_bias.empty())
      io.d_bias = {d_bias.data(), problem.bias.batch, problem.bias.head, problem.bias.query, problem.bias.key};
    rule_backward<Device::cpu>(context, problem, rule_, io);
    for (Field* field : {&a.dq, &a.dk, &a.dv}) field->load();
    visit_float(wide(), [&]<class T>() {
      const T* data = reinterpret_cast<const T*>(d_bias.data());
      a.d_bias.assign(data, data + a.bias.size());
    });
  }

  // o by plain loops over what the arrays hold; rows of no piece are zero.
  std::vector<double> plain_outputs() const {
    Field o = case_.arrays().o;
    std::fill(o.values.begin(), o.values.end(), 0.0);
    for (const Piece& piece : options().pieces)
      for (std::int64_t h = 0; h < options().heads; ++h)
        for (std::int64_t i = 0; i < piece.nq; ++i) plain_row(piece, h, i, o);
    return o.values;
  }

  std::vector<double> weights_of(const std::vector<double>& scores, std::int64_t position) const {
    switch (rule_.kind) {
      case RowRuleKind::top_k: return reference::top_k_weights(scores, rule_.k);
      case RowRuleKind::sparsemax: return reference::sparsemax_weights(scores);
      case RowRuleKind::entmax15: return reference::entmax15_weights(scores);
      case RowRuleKind::self_adjust_normalized: return reference::self_adjust_weights(scores);
      case RowRuleKind::margin: break;
    }
    const bool exists = position >= 0 && position < static_cast<std::int64_t>(scores.size());
    const std::int64_t diagonal = exists ? position : -1;
    return reference::margin_weights(
        scores, rule_.training ? rule_.margin : 0.0,
        rule_.target == MarginTarget::diagonal ? diagonal : reference::first_largest(scores));
  }

 private:
  DType wide() const { return options().dtype == DType::f64 ? DType::f64 : DType::f32; }
  std::size_t wide_size() const { return size_of(wide()); }
  // Do the pieces reach every element of the bias?
  bool covers() const {
    for (const Piece& p : options().pieces)
      if (p.nq != options().n_q || p.nk != options().n_k) return false;
    return true;
  }

  double bias_at(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t at = b * p.bias.batch + h * p.bias.head + i * p.bias.query + j * p.bias.key;
    return case_.arrays().bias[static_cast<std::size_t>(at)];
  }

  void plain_row(const Piece& piece, std::int64_t h, std::int64_t i, Field& o) const {
    const Options& x = options();
    const Arrays& a = case_.arrays();
    const Problem problem = case_.problem();
    const std::int64_t b = piece.batch, qi = piece.query_row(i), kv = h * x.kv_heads / x.heads;
    const std::int64_t position = i + piece.nk - piece.nq;
    std::vector<double> scores(static_cast<std::size_t>(piece.nk), -std::numeric_limits<double>::infinity());
    for (std::int64_t j = 0; j < piece.nk; ++j) {
      if (!x.pattern.keep(position, j)) continue;
      double s = 0.0;
      for (std::int64_t c = 0; c < x.d_k; ++c) s += a.q.at(b, qi, h, c) * a.k.at(b, piece.key_row(j), kv, c);
      s *= case_.scale();
      if (problem.alibi != nullptr) s -= problem.alibi[h] * std::abs(static_cast<double>(piece.distance(i, j)));
      if (!a.bias.empty()) s += bias_at(problem, b, h, qi, piece.key_row(j));
      scores[static_cast<std::size_t>(j)] = s;
    }
    const std::vector<double> weights = weights_of(scores, position);
    const PairDropout drop = PairDropout::of(x.dropout, problem.dropout.seed, problem.dropout.stream).at(b, h);
    for (std::int64_t j = 0; j < piece.nk; ++j) {
      double weight = weights[static_cast<std::size_t>(j)];
      if (x.dropout > 0) weight *= drop.keep(qi, piece.key_row(j)) ? PairDropout::scale(x.dropout) : 0.0;
      for (std::int64_t c = 0; weight != 0.0 && c < x.d_v; ++c)
        o.at(b, qi, h, c) += weight * a.v.at(b, piece.key_row(j), kv, c);
    }
  }

  AttentionCase case_;
  RowRule rule_;
};

}  // namespace fovea::tile::testing
