#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/rule_kernel.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include "hwy/highway.h"
#include "tile/cpu/bias_gradient-inl.h"
#include "tile/cpu/operands-inl.h"
#include "tile/cpu/rule_columns-inl.h"
#include "tile/cpu/rule_kernel.h"
#include "tile/cpu/rule_row-inl.h"
#include "tile/cpu/turns.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// S^T = K Q^T, modified, for all keys; P = rule(S); O^T = V^T P^T.
template <class R>
class RuleAttend : RuleRow<R> {
 public:
  RuleAttend(const RuleForwardCall& call, const Unit& unit, HeadBlock queries, Room scratch)
      : RuleRow<R>({call.problem, call.rule, unit, queries, scratch}, false), call_(call) {}

  void run() {
    this->score(call_.io.q);
    this->apply_rule_to_row();
    std::fill_n(t_.o, problem_.d_v * at_.lanes, R{0});
    this->each_block([&](std::int32_t, const auto& keys) {
      if (dropout_.active()) dropout_.apply(at_, this->tile(t_.s), t_.spare);
      const std::size_t d = size(problem_.d_v), lanes = size(at_.lanes);
      this->template add<Order::columns>(
          {keys.v, size(keys_.ld_v), this->tile(t_.s), lanes, t_.o, lanes, d, lanes, size(at_.kc)}, *keys.finite_v != 0,
          true);
    });
    transpose_tile<R>({t_.o, at_.lanes}, {t_.rows, problem_.d_v}, problem_.d_v, at_.qc);
    const R dropped = dropout_.active() ? static_cast<R>(PairDropout::scale(problem_.dropout.p)) : R{1};
    store_rows<R>(t_.rows, problem_.d_v, dropped, rows_.outputs(call_.io.o, at_), call_.stores);
  }

 private:
  using RuleRow<R>::problem_, RuleRow<R>::keys_, RuleRow<R>::t_, RuleRow<R>::rows_;
  using RuleRow<R>::dropout_, RuleRow<R>::at_, RuleRow<R>::size;

  const RuleForwardCall& call_;
};

// S^T = K Q^T, modified, and dP^T = V dO^T for all keys; P, dS = rule(S, dP);
//   dQ = dS K; dV += P^T dO; dK += dS^T Q.
// A key block's sums are added to in turns (see turns.h), one query block after the other: blocks are handed out in the
// order of the turns and walk over the keys in the same order, so that the first of those at work waits for nobody.
template <class R>
class RuleVjp : RuleRow<R> {
 public:
  RuleVjp(const RuleBackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch)
      : RuleRow<R>({call.problem, call.rule, unit, queries, scratch}, true),
        call_(call),
        bias_(call.io.d_bias, call.bias_is_shared, *unit.piece, queries.head) {}

  void run() {
    finite_q_ = this->score(call_.io.q);
    score_gradients();
    this->apply_rule_to_row();
    std::fill_n(t_.dq, at_.qc * keys_.ld_k, R{0});
    this->each_block([&](std::int32_t key_block, const Block& keys) {
      if (dropout_.active()) dropout_.apply(at_, this->tile(t_.s), t_.spare, dropped());
      add_to_queries(keys);
      if (bias_.data != nullptr && !bias_.add) bias_.take(at_, this->tile(t_.g), t_.turned);
      await_turn(*keys.turns, turn_at(key_block));
      if (bias_.data != nullptr && bias_.add) bias_.take(at_, this->tile(t_.g), t_.turned);
      add_to_keys(keys);
      pass_turn(*keys.turns);
    });
    const R scale = static_cast<R>(problem_.scale);
    store_rows<R>(t_.dq, keys_.ld_k, scale, rows_(call_.io.dq, at_, problem_.d_k), StoreMode::cached);
  }

 private:
  using Block = typename RuleRow<R>::Block;
  using RuleRow<R>::problem_, RuleRow<R>::unit_, RuleRow<R>::queries_, RuleRow<R>::keys_;
  using RuleRow<R>::t_, RuleRow<R>::rows_, RuleRow<R>::dropout_, RuleRow<R>::at_, RuleRow<R>::size;

  R dropped() const { return static_cast<R>(PairDropout::scale(problem_.dropout.p)); }

  // dP^T = V dO^T, zero where dropped
  void score_gradients() {
    finite_do_ = this->load(rows_.outputs(call_.io.d_o, at_), R{1}, {problem_.d_v, t_.d_o, keys_.ld_v, t_.do_across});
    this->each_block([&](std::int32_t, const Block& keys) {
      const std::size_t lanes = size(at_.lanes);
      Plain<R>::score({keys.v, size(keys_.ld_v), t_.do_across, lanes, this->tile(t_.g), lanes, size(at_.kc), lanes,
                       size(problem_.d_v)},
                      R{1}, nullptr);
      if (dropout_.active()) dropout_.apply(at_, this->tile(t_.g), t_.spare, dropped());
    });
  }

  // dQ += dS K
  void add_to_queries(const Block& keys) const {
    const std::size_t lanes = size(at_.lanes), ld_k = size(keys_.ld_k);
    this->template add<Order::columns>(
        {this->tile(t_.g), lanes, keys.k, ld_k, t_.dq, ld_k, size(at_.qc), ld_k, size(at_.kc)}, *keys.finite_k != 0);
  }

  // dV += P^T dO; dK += dS^T Q
  void add_to_keys(const Block& keys) const {
    const std::size_t lanes = size(at_.lanes), queries = size(at_.qc), kc = size(at_.kc);
    const std::size_t ld_k = size(keys_.ld_k), ld_v = size(keys_.ld_v);
    this->template add<Order::rows>({this->tile(t_.s), lanes, t_.d_o, ld_v, keys.dv, ld_v, kc, ld_v, queries},
                                    finite_do_);
    this->template add<Order::rows>({this->tile(t_.g), lanes, t_.q, ld_k, keys.dk, ld_k, kc, ld_k, queries}, finite_q_);
  }

  // How many blocks add to a key block before this one: head by head, the last query block first.
  std::int32_t turn_at(std::int32_t key_block) const {
    const auto column = this->plan().column(key_block);
    const auto blocks = static_cast<std::int32_t>(count_blocks(column));
    const auto heads = static_cast<std::int32_t>(queries_.head - heads_of(problem_, unit_.kv_head).begin);
    return heads * blocks + blocks - 1 - count_before(column, queries_.block);
  }

  const RuleBackwardCall& call_;
  BiasGradient<R> bias_;
  bool finite_q_ = true, finite_do_ = true;
};

template <class R>
UnitBytes rule_unit_bytes(const Problem& problem, const Unit& unit) {
  return RuleKeys<R>(problem, without_room(unit)).bytes;
}

template <class R>
std::size_t rule_scratch_bytes(const Problem& problem, const RowSize& size) {
  return RuleScratch<R>(problem, size, {}).bytes;
}

template <class R>
void rule_pack(const Problem& problem, const In& k, const In& v, const Unit& unit, std::int32_t key_block) {
  const RuleKeys<R> keys(problem, unit);
  const auto to = keys.block(key_block);
  *to.finite_k = load_rows<R>(key_rows(problem, k, unit, key_block, problem.d_k), R{1}, to.k, keys.ld_k);
  *to.finite_v = load_rows<R>(key_rows(problem, v, unit, key_block, problem.d_v), R{1}, to.v, keys.ld_v);
}

template <class R>
void rule_open(const Problem& problem, const Unit& unit, std::int32_t key_block) {
  const RuleKeys<R> keys(problem, unit);
  const auto to = keys.block(key_block);
  *to.turns = 0;
  std::fill_n(to.dk, unit.plan().tile_k * keys.ld_k, R{0});
  std::fill_n(to.dv, unit.plan().tile_k * keys.ld_v, R{0});
}

template <class R>
void rule_attend(const RuleForwardCall& call, const Unit& unit, HeadBlock queries, Room scratch) {
  RuleAttend<R>(call, unit, queries, scratch).run();
}

template <class R>
void rule_vjp(const RuleBackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch) {
  RuleVjp<R>(call, unit, queries, scratch).run();
}

template <class R>
void rule_finish(const RuleBackwardCall& call, const Unit& unit, std::int32_t key_block) {
  const Problem& problem = call.problem;
  const RuleKeys<R> keys(problem, unit);
  const auto from = keys.block(key_block);
  store_rows<R>(from.dk, keys.ld_k, R{1}, key_rows(problem, call.io.dk, unit, key_block, problem.d_k),
                StoreMode::cached);
  store_rows<R>(from.dv, keys.ld_v, R{1}, key_rows(problem, call.io.dv, unit, key_block, problem.d_v),
                StoreMode::cached);
}

template <class R>
struct RuleTable {
  static constexpr RuleKernel kKernel{rule_unit_bytes<R>, rule_scratch_bytes<R>, rule_pack<R>,  rule_open<R>,
                                      rule_attend<R>,     rule_vjp<R>,           rule_finish<R>};
};

const RuleKernel* find_rule(bool is_double) { return choose_type<RuleTable>(is_double); }

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::tile {
HWY_EXPORT(find_rule);

const RuleKernel& rule_kernel(const Problem& problem) {
  numbers_of(problem);  // reads FOVEA_ISA at the first question
  return *HWY_DYNAMIC_DISPATCH(find_rule)(problem.dtype == DType::f64);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
