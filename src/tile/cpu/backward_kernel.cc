#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/backward_kernel.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include "hwy/highway.h"
#include "tile/cpu/backward_pack-inl.h"
#include "tile/cpu/bias_gradient-inl.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/operands-inl.h"
#include "tile/cpu/rows-inl.h"
#include "tile/cpu/score-inl.h"
#include "tile/cpu/turns.h"
#include "tile/cpu/units.h"
#include "tile/cpu/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Pairs of blocks, one after another:
//   S^T = K Q^T, modified; dP^T = V dO^T; P = again(S); dS = vjp(P, dP);
//   dV += P^T dO; dK += dS^T Q; dQ += dS K.
// Five products of one kind. Column by column dK and dV of the key block stay in cache and dQ is summed in memory; row
// by row it is the other way round.
template <class M>
class VjpTile {
 public:
  using R = typename M::Real;
  using Element = typename M::Element;

  VjpTile(const BackwardCall& call, const Unit& unit, Room scratch, Prefetch* next)
      : call_(call),
        problem_(call.problem),
        unit_(unit),
        packed_(call, unit),
        weights_(passes_of<R>(call.problem.weight)),
        t_(call.problem, unit.plan().tile(), scratch),
        next_(next) {}

  // Some key blocks, over the query blocks that read them, of every head of the group.
  void run_columns(BlockRange keys) {
    const std::int64_t count = keys.end - keys.begin;
    std::fill_n(t_.dk, count * packed_.dk_size(), R{0});
    std::fill_n(t_.dv, count * packed_.dv_size(), R{0});
    const auto sums = [&](std::int32_t block) { return scratch_sums(block - keys.begin); };
    const BlockRange queries = readers_of(keys);
    const HeadRange heads = heads_of(problem_, unit_.kv_head);
    for (std::int64_t h = heads.begin; h < heads.end; ++h) {
      const Head head = head_of(h);
      for (std::int32_t block = queries.begin; block < queries.end; ++block) visit_row(head, block, keys, sums);
    }
    for (std::int32_t block = keys.begin; block < keys.end; ++block) store_keys<M>(call_, unit_, block, sums(block));
  }

  // One query block, over all key blocks it reads.
  void run_row(HeadBlock queries) {
    visit_row(head_of(queries.head), queries.block, {unit_.island.key_begin, unit_.island.key_end},
              [&](std::int32_t block) { return packed_.key_sums(block); });
  }

 private:
  // What changes from head to head.
  struct Head {
    std::int64_t index;
    ScoreModifier<R> modifier;
    WeightDropout dropout;
    BiasGradient<R> bias;
  };

  Head head_of(std::int64_t head) const {
    return {head,
            {problem_, *unit_.piece, head, weights_.unit},
            {problem_, *unit_.piece, head},
            {call_.io.d_bias, call_.bias_is_shared, *unit_.piece, head}};
  }

  KeySums<R> scratch_sums(std::int64_t i) const {
    return {t_.dk + i * packed_.dk_size(), t_.dv + i * packed_.dv_size()};
  }

  // From the first query block that reads one of the key blocks to the last.
  BlockRange readers_of(BlockRange keys) const {
    BlockRange hull{unit_.island.query_end, unit_.island.query_begin};
    for (std::int32_t block = keys.begin; block < keys.end; ++block) {
      const auto column = unit_.plan().column(block);
      if (column.empty()) continue;
      hull = {std::min(hull.begin, column.front().block),
              std::max(hull.end, column.back().block + column.back().count)};
    }
    return hull;
  }

  template <class SumsOf>
  void visit_row(const Head& head, std::int32_t query_block, BlockRange keys, const SumsOf& sums_of) {
    at_ = query_tile<R>(unit_, query_block);
    for (const Plan::Entry& entry : unit_.plan().row(query_block)) {
      if (entry.block >= keys.end) break;
      const std::int32_t end = std::min(entry.block + entry.count, keys.end);
      for (std::int32_t block = std::max(entry.block, keys.begin); block < end; ++block) {
        open(block, sums_of(block));
        at_.enter(unit_, block, entry.mask);
        visit(head, query_block);
      }
    }
  }

  void open(std::int32_t key_block, KeySums<R> sums) {
    keys_ = packed_.keys(key_block);
    sums_ = sums;
    key_block_ = key_block;
  }

  void visit(const Head& head, std::int32_t query_block) {
    const QuerySlot<M> slot = packed_.queries({head.index, query_block});
    score(slot);
    if (head.modifier.touches(at_.mask)) head.modifier.apply(at_, t_.s, t_.spare);
    weigh(head, slot);
    if (head.bias.data != nullptr && !head.bias.add) head.bias.take(at_, t_.ds, t_.turned);
    round();
    const bool hides = head.modifier.may_hide(at_.mask);
    add_to_keys(slot, hides);
    if (call_.in_turns) await_turn(*slot.turns, count_before(unit_.plan().row(query_block), key_block_));
    if (head.bias.data != nullptr && head.bias.add) head.bias.take(at_, t_.ds, t_.turned);
    add_to_queries(slot, hides);
    if (call_.in_turns) pass_turn(*slot.turns);
  }

  // S^T = K Q^T and dP^T = V dO^T
  void score(const QuerySlot<M>& slot) const {
    const auto lanes = static_cast<std::size_t>(at_.lanes), keys = static_cast<std::size_t>(at_.kc);
    const auto d_k = static_cast<std::size_t>(elements<M>(problem_.d_k));
    const auto d_v = static_cast<std::size_t>(elements<M>(problem_.d_v));
    const auto across_k = static_cast<std::size_t>(packed_.across_k);
    const Product<R, Element> s{keys_.k, across_k, slot.q_across, lanes, t_.s, lanes, keys, lanes, d_k, next_};
    const Product<R, Element> dp{keys_.v, d_v, slot.do_across, lanes, t_.ds, lanes, keys, lanes, d_v, next_};
    M::score(s, M::product_scale(static_cast<R>(problem_.scale) * weights_.unit), nullptr);
    M::score(dp, R{1}, nullptr);
  }

  void weigh(const Head& head, const QuerySlot<M>& slot) const {
    const RowTerms<R> rows{slot.statistic, slot.delta};
    if (head.dropout.active()) {
      head.dropout.draw(at_, t_.spare, static_cast<R>(PairDropout::scale(problem_.dropout.p)));
      multiply(t_.ds, t_.spare, at_.kc * at_.lanes);
    }
    weights_.weigh_back(problem_, at_, t_.s, t_.ds, rows);
    if (head.dropout.active()) multiply(t_.s, t_.spare, at_.kc * at_.lanes);
  }

  // Weights and score gradients as operands; queries beyond the sequence must not reach one.
  void round() const {
    const std::int64_t along = elements<M>(at_.lanes);
    round_along<M>({t_.s, at_.lanes}, {t_.p_along, along}, at_.kc, at_.qc);
    round_along<M>({t_.ds, at_.lanes}, {t_.ds_along, along}, at_.kc, at_.qc);
    round_woven<M>({t_.ds, at_.lanes}, {t_.ds_woven, at_.lanes}, at_.kc, at_.lanes);
  }

  // dV += P^T dO; dK += dS^T Q
  void add_to_keys(const QuerySlot<M>& slot, bool hides) const {
    const std::size_t kc = size(at_.kc), along = size(elements<M>(at_.lanes)), queries = size(elements<M>(at_.qc));
    const std::size_t ld_k = size(packed_.ld_k), ld_v = size(packed_.ld_v);
    add<Order::rows>({t_.p_along, along, slot.d_o, ld_v, sums_.dv, ld_v, kc, ld_v, queries, next_},
                     hides && *slot.finite_do == 0);
    add<Order::rows>({t_.ds_along, along, slot.q, ld_k, sums_.dk, ld_k, kc, ld_k, queries, next_},
                     hides && *slot.finite_q == 0);
  }

  // dQ += dS K
  void add_to_queries(const QuerySlot<M>& slot, bool hides) const {
    const std::size_t lanes = size(at_.lanes), ld_k = size(packed_.ld_k), keys = size(elements<M>(at_.kc));
    add<Order::columns>({t_.ds_woven, lanes, keys_.k_woven, ld_k, slot.dq, ld_k, size(at_.qc), ld_k, keys, next_},
                        hides && *keys_.finite == 0);
  }

  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  template <Order kOrder>
  static void add(const Product<R, Element>& p, bool hiding) {
    if (hiding) return product_hiding<M>(p, kOrder, false);
    M::template add<kOrder>(p);
  }

  const BackwardCall& call_;
  const Problem& problem_;
  const Unit& unit_;
  PackedUnit<M> packed_;
  WeightPasses<R> weights_;
  BackwardScratch<M> t_;
  Prefetch* next_;
  KeySlot<M> keys_{};
  KeySums<R> sums_{};
  std::int32_t key_block_ = 0;
  TileAt at_{};
};

template <class M>
void vjp(const BackwardCall& call, const Unit& unit, BlockRange keys, Room scratch, Prefetch* next) {
  VjpTile<M>(call, unit, scratch, next).run_columns(keys);
}

template <class M>
void vjp_row(const BackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch, Prefetch* next) {
  VjpTile<M>(call, unit, scratch, next).run_row(queries);
}

template <class M>
UnitBytes backward_unit_bytes(const BackwardCall& call, const Unit& unit) {
  return PackedUnit<M>(call, without_room(unit)).bytes();
}

template <class M>
std::size_t backward_scratch_bytes(const Problem& problem, TileSize tile) {
  return BackwardScratch<M>(problem, tile, {}).bytes;
}

template <class M>
struct BackwardTable {
  static constexpr BackwardKernel kKernel{
      backward_unit_bytes<M>, backward_scratch_bytes<M>, pack_keys<M>, pack_queries<M>, vjp<M>, vjp_row<M>, finish<M>,
      finish_keys<M>};
};

const BackwardKernel* find_backward(Numbers numbers) { return choose<BackwardTable>(numbers); }

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::tile {
HWY_EXPORT(find_backward);

const BackwardKernel& backward_kernel(const Problem& problem) {
  // Wide gradients of outputs stay as they are: in pairs of bf16 dO . V would lose what dO . O still has (dq of taylor
  // 33% off where values hardly differ).
  const Numbers numbers = numbers_of(problem);
  const bool rounds = numbers == Numbers::bf16_pairs && problem.wide_outputs;
  return *HWY_DYNAMIC_DISPATCH(find_backward)(rounds ? Numbers::f32 : numbers);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
