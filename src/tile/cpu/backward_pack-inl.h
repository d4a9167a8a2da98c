// What backward keeps of a unit: packed copies of its blocks and the sums of dq, and how they are filled and written
// out.

#if defined(FOVEA_TILE_CPU_BACKWARD_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_BACKWARD_PACK_INL_H_
#undef FOVEA_TILE_CPU_BACKWARD_PACK_INL_H_
#else
#define FOVEA_TILE_CPU_BACKWARD_PACK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "simd/product.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/operands-inl.h"
#include "tile/cpu/rows-inl.h"
#include "tile/cpu/score-inl.h"
#include "tile/cpu/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// One key block. ld_k, ld_v: padded widths.
template <class M>
struct KeySlot {
  using Element = typename M::Element;
  Element* k;            // [tile_k, across_k]: broadcast in the scores
  Element* k_woven;      // [elements(tile_k), ld_k]: rows in dq; without pairs the same as k
  Element* v;            // [tile_k, elements(d_v)]: broadcast only
  std::uint8_t* finite;  // of k
};

// One query block of one head.
template <class M>
struct QuerySlot {
  using R = typename M::Real;
  using Element = typename M::Element;
  Element* q;          // [elements(tile_q), ld_k], times scale unless products are scaled
  Element* q_across;   // [elements(d_k), lanes], the same times unit: the score operand
  Element* d_o;        // [elements(tile_q), ld_v]
  Element* do_across;  // [elements(d_v), lanes]
  R* statistic;        // [lanes], as the weight policy's `again` wants it
  R* delta;            // [lanes]: rowsum(dO * O) - dLSE
  std::uint8_t* finite_q;
  std::uint8_t* finite_do;
  R* dq;                // [tile_q, ld_k]
  std::int32_t* turns;  // key blocks that have added to dq
};

// Sums of one key block.
template <class R>
struct KeySums {
  R* dk;  // [tile_k, ld_k]
  R* dv;  // [tile_k, ld_v]
};

// The slots of a unit: keys and values once, and the queries of every head of its group.
template <class M>
class PackedUnit {
 public:
  using R = typename M::Real;
  using Element = typename M::Element;
  std::int64_t ld_k, ld_v, lanes;
  std::int64_t across_k;  // row length of the keys that are broadcast

  PackedUnit(const BackwardCall& call, const Unit& unit)
      : ld_k(padded_width<R>(call.problem.d_k)),
        ld_v(padded_width<R>(call.problem.d_v)),
        lanes(padded_width<R>(unit.plan().tile_q)),
        across_k(M::kPaired ? elements<M>(call.problem.d_k) : ld_k),
        unit_(&unit),
        k_size_(unit.plan().tile_k * across_k),
        woven_size_(M::kPaired ? elements<M>(unit.plan().tile_k) * ld_k : 0),
        v_size_(unit.plan().tile_k * elements<M>(call.problem.d_v)),
        q_size_(elements<M>(unit.plan().tile_q) * ld_k),
        q_across_size_(elements<M>(call.problem.d_k) * lanes),
        do_size_(elements<M>(unit.plan().tile_q) * ld_v),
        do_across_size_(elements<M>(call.problem.d_v) * lanes),
        dq_size_(unit.plan().tile_q * ld_k),
        dk_size_(unit.plan().tile_k * ld_k),
        dv_size_(unit.plan().tile_k * ld_v),
        heads_(heads_of(call.problem, unit.kv_head)) {
    const std::int64_t queries = heads_.size() * unit.query_slots, keys = unit.key_slots;
    Carver of_keys(unit.room.keys), of_queries(unit.room.queries), sums(unit.room.sums), notes(unit.room.notes);
    k_ = of_keys.take<Element>(keys * k_size_);
    woven_ = of_keys.take<Element>(keys * woven_size_);
    v_ = of_keys.take<Element>(keys * v_size_);
    q_ = of_queries.take<Element>(queries * q_size_);
    q_across_ = of_queries.take<Element>(queries * q_across_size_);
    d_o_ = of_queries.take<Element>(queries * do_size_);
    do_across_ = of_queries.take<Element>(queries * do_across_size_);
    dq_ = sums.take<R>(queries * dq_size_);
    key_sums_ = unit.sums_keys ? sums.take<R>(key_sums_size()) : nullptr;
    statistic_ = notes.take<R>(queries * lanes);
    delta_ = notes.take<R>(queries * lanes);
    turns_ = notes.take<std::int32_t>(queries);
    finite_ = notes.take<std::uint8_t>(keys + 2 * queries);
    bytes_ = {of_keys.used(), of_queries.used(), sums.used(), notes.used()};
  }

  KeySlot<M> keys(std::int32_t key_block) const {
    const std::int64_t i = unit_->key_slot(key_block);
    Element* k = k_ + i * k_size_;
    return {k, M::kPaired ? woven_ + i * woven_size_ : k, v_ + i * v_size_, finite_ + i};
  }

  // Those of a unit that sums its keys; together they are one array of key_sums_size() elements.
  KeySums<R> key_sums(std::int32_t key_block) const {
    const std::int64_t i = unit_->key_slot(key_block);
    return {key_sums_ + i * dk_size_, key_sums_ + unit_->key_slots * dk_size_ + i * dv_size_};
  }
  void clear_key_sums(std::int32_t key_block) const {
    const KeySums<R> sums = key_sums(key_block);
    std::fill_n(sums.dk, dk_size_, R{0});
    std::fill_n(sums.dv, dv_size_, R{0});
  }
  std::int64_t dk_size() const { return dk_size_; }
  std::int64_t dv_size() const { return dv_size_; }
  std::int64_t key_sums_size() const { return unit_->key_slots * (dk_size_ + dv_size_); }

  QuerySlot<M> queries(HeadBlock q) const {
    const std::int64_t i = (q.head - heads_.begin) * unit_->query_slots + unit_->query_slot(q.block);
    std::uint8_t* finite = finite_ + unit_->key_slots + 2 * i;
    return {q_ + i * q_size_,
            q_across_ + i * q_across_size_,
            d_o_ + i * do_size_,
            do_across_ + i * do_across_size_,
            statistic_ + i * lanes,
            delta_ + i * lanes,
            finite,
            finite + 1,
            dq_ + i * dq_size_,
            turns_ + i};
  }

  UnitBytes bytes() const { return bytes_; }

 private:
  const Unit* unit_;
  std::int64_t k_size_, woven_size_, v_size_, q_size_, q_across_size_, do_size_, do_across_size_, dq_size_;
  std::int64_t dk_size_, dv_size_;
  HeadRange heads_;
  Element *k_, *woven_, *v_, *q_, *q_across_, *d_o_, *do_across_;
  R *dq_, *key_sums_, *statistic_, *delta_;
  std::int32_t* turns_;
  std::uint8_t* finite_;
  UnitBytes bytes_;
};

// One thread's tiles. Without pairs the tiles are operands themselves.
template <class M>
struct BackwardScratch {
  using R = typename M::Real;
  using Element = typename M::Element;
  R* s;               // [tile_k, lanes]: scores, then weights
  R* ds;              // [tile_k, lanes]: gradients of the weights, then of the scores
  Element* p_along;   // [tile_k, elements(lanes)]: the weights as an operand
  Element* ds_along;  // [tile_k, elements(lanes)]: the score gradients as an operand ...
  Element* ds_woven;  // [elements(tile_k), lanes]: ... and the other way round
  R* spare;           // [tile_k, lanes]: a bias tile or a dropout mask
  R* turned;          // [tile_q, tile_k]: score gradients on their way to d_bias
  R* dk;              // [blocks, tile_k, ld_k]
  R* dv;              // [blocks, tile_k, ld_v]
  R* rows;            // [tile_q, max(ld_k, ld_v)]: queries, or gradients of outputs, on their way in
  R* outputs;         // [tile_q, d_v]
  Element* halves;    // [tile_q, elements(max(ld_k, ld_v))]: rows, rounded
  std::size_t bytes;

  BackwardScratch(const Problem& problem, TileSize tile, Room room) {
    const std::int64_t lanes = padded_width<R>(tile.query);
    const std::int64_t ld_k = padded_width<R>(problem.d_k), ld_v = padded_width<R>(problem.d_v);
    const bool extra = problem.bias.data != nullptr || problem.dropout.p > 0;
    Carver carver(room);
    s = carver.take<R>(tile.key * lanes);
    ds = carver.take<R>(tile.key * lanes);
    if constexpr (M::kPaired) {
      p_along = carver.take<Element>(tile.key * elements<M>(lanes));
      ds_along = carver.take<Element>(tile.key * elements<M>(lanes));
      ds_woven = carver.take<Element>(elements<M>(tile.key) * lanes);
    } else {
      p_along = s;
      ds_along = ds_woven = ds;
    }
    spare = carver.take<R>(extra ? tile.key * lanes : 0);
    turned = carver.take<R>(problem.bias.data != nullptr ? std::int64_t{tile.query} * tile.key : 0);
    const std::int64_t blocks = vjp_blocks(problem, tile.key);
    dk = carver.take<R>(blocks * tile.key * ld_k);
    dv = carver.take<R>(blocks * tile.key * ld_v);
    rows = carver.take<R>(tile.query * std::max(ld_k, ld_v));
    outputs = carver.take<R>(tile.query * problem.d_v);
    halves = carver.take<Element>(M::kPaired ? tile.query * elements<M>(std::max(ld_k, ld_v)) : 0);
    bytes = carver.used();
  }
};

template <class M>
void pack_keys(const BackwardCall& call, const Unit& unit, std::int32_t key_block) {
  const Problem& problem = call.problem;
  const PackedUnit<M> packed(call, unit);
  const KeySlot<M> to = packed.keys(key_block);
  const auto k = key_rows(problem, call.io.k, unit, key_block, problem.d_k);
  const auto v = key_rows(problem, call.io.v, unit, key_block, problem.d_v);
  *to.finite = M::load(k, 1, to.k, packed.across_k);
  if constexpr (M::kPaired) M::load_woven(k, to.k_woven, packed.ld_k);
  M::load(v, 1, to.v, elements<M>(problem.d_v));
  if (unit.sums_keys) packed.clear_key_sums(key_block);
}

// Packs one query block of one head.
template <class M>
class QueryPacker {
 public:
  using R = typename M::Real;
  using Element = typename M::Element;

  QueryPacker(const BackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch)
      : call_(call),
        problem_(call.problem),
        piece_(*unit.piece),
        head_(queries.head),
        rows_{call.problem, *unit.piece, queries.head},
        weights_(passes_of<R>(call.problem.weight)),
        unit_(call, unit),
        to_(unit_.queries(queries)),
        at_(query_tile<R>(unit, queries.block)),
        t_(call.problem, unit.plan().tile(), scratch) {}

  void run() const {
    read_statistics();
    pack_queries();
    pack_gradients();
    std::fill_n(to_.dq, at_.qc * unit_.ld_k, R{0});
    *to_.turns = 0;
  }

 private:
  void pack_queries() const {
    const R scale = static_cast<R>(problem_.scale);
    const auto q = rows_(call_.io.q, at_, problem_.d_k);
    R* staged = stage(to_.q);
    *to_.finite_q = load_rows<R>(q, M::operand_scale(scale), staged, unit_.ld_k);
    clear_empty(staged, unit_.ld_k);
    round_woven<M>({staged, unit_.ld_k}, {to_.q, unit_.ld_k}, at_.qc, unit_.ld_k);
    if constexpr (!M::kPaired) {
      // The score operand is rounded as in forward, so that the rebuilt scores have the same bits.
      load_rows<R>(q, scale * weights_.unit, t_.rows, unit_.ld_k);
      clear_empty(t_.rows, unit_.ld_k);
    }
    transpose({t_.rows, unit_.ld_k}, to_.q_across, problem_.d_k);
  }

  void pack_gradients() const {
    R* staged = stage(to_.d_o);
    *to_.finite_do = load_rows<R>(rows_.outputs(call_.io.d_o, at_), R{1}, staged, unit_.ld_v);
    clear_empty(staged, unit_.ld_v);
    if (weights_.has_top) subtract_outputs(staged);
    round_woven<M>({staged, unit_.ld_v}, {to_.d_o, unit_.ld_v}, at_.qc, unit_.ld_v);
    transpose({staged, unit_.ld_v}, to_.do_across, problem_.d_v);
  }

  // Where rows are loaded and corrected: in place, or before they are rounded.
  R* stage(Element* to) const {
    if constexpr (M::kPaired)
      return t_.rows;
    else
      return to;
  }

  R statistic_at(const In& array, std::int64_t i) const {
    return *static_cast<const R*>(element(array, dtype_of<R>, piece_.batch, piece_.query_row(at_.q0 + i), head_));
  }
  bool is_empty(std::int64_t i) const { return weights_.has_top && to_.statistic[i] == math::kInfinity<R>; }

  void read_statistics() const {
    std::fill_n(to_.statistic, at_.lanes, math::kInfinity<R>);  // padding lanes weigh nothing
    std::fill_n(to_.delta, at_.lanes, R{0});
    if (weights_.has_top)
      for (std::int64_t i = 0; i < at_.qc; ++i) to_.statistic[i] = Softmax::reopen(statistic_at(call_.io.lse, i));
  }

  // Nothing of an empty row may reach a gradient, not even its NaN.
  void clear_empty(R* rows, std::int64_t ld) const {
    for (std::int64_t i = 0; i < at_.qc; ++i)
      if (is_empty(i)) std::fill_n(rows + i * ld, ld, R{0});
  }

  // delta = dO . O - dLSE. Where values hardly differ it nearly cancels dO . V, and what O lost to rounding matters.
  void subtract_outputs(const R* d_o) const {
    add_products(d_o, call_.io.o);
    if (call_.io.rest.data != nullptr) add_products(d_o, call_.io.rest);
    if (call_.io.d_lse.data == nullptr) return;
    for (std::int64_t i = 0; i < at_.qc; ++i)
      if (!is_empty(i)) to_.delta[i] -= statistic_at(call_.io.d_lse, i);
  }

  void add_products(const R* d_o, const In& outputs) const {
    load_rows<R>(rows_.outputs(outputs, at_), R{1}, t_.outputs, problem_.d_v);
    for (std::int64_t i = 0; i < at_.qc; ++i) {
      if (is_empty(i)) continue;
      const R* HWY_RESTRICT o = t_.outputs + i * problem_.d_v;
      const R* HWY_RESTRICT g = d_o + i * unit_.ld_v;
      R sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < problem_.d_v; ++c) sum += o[c] * g[c];
      to_.delta[i] += sum;
    }
  }

  // to[elements(width), lanes] = the rows, transposed
  void transpose(Rectangle<const R> from, Element* to, std::int64_t width) const {
    if constexpr (M::kPaired) {
      const std::int64_t height = elements<M>(width);
      round_along<M>(from, {t_.halves, height}, at_.qc, width);
      turn_across<Element>({t_.halves, height}, at_, height, to);
    } else {
      turn_across<R>(from, at_, width, to);
    }
  }

  const BackwardCall& call_;
  const Problem& problem_;
  const Piece& piece_;
  std::int64_t head_;
  QueryRows rows_;
  WeightPasses<R> weights_;
  PackedUnit<M> unit_;
  QuerySlot<M> to_;
  TileAt at_;
  BackwardScratch<M> t_;
};

template <class M>
void pack_queries(const BackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch) {
  QueryPacker<M>(call, unit, queries, scratch).run();
}

template <class M>
void finish(const BackwardCall& call, const Unit& unit, HeadBlock queries) {
  using R = typename M::Real;
  const PackedUnit<M> packed(call, unit);
  const QuerySlot<M> slot = packed.queries(queries);
  const TileAt at = query_tile<R>(unit, queries.block);
  const auto to = QueryRows{call.problem, *unit.piece, queries.head}(call.io.dq, at, call.problem.d_k);
  store_rows<R>(slot.dq, packed.ld_k, static_cast<R>(call.problem.scale), to, call.stores);
}

template <class M>
void store_keys(const BackwardCall& call, const Unit& unit, std::int32_t key_block,
                const KeySums<typename M::Real>& sums) {
  using R = typename M::Real;
  const Problem& problem = call.problem;
  const auto dk = key_rows(problem, call.io.dk, unit, key_block, problem.d_k);
  const auto dv = key_rows(problem, call.io.dv, unit, key_block, problem.d_v);
  store_rows<R>(sums.dk, padded_width<R>(problem.d_k), M::product_scale(static_cast<R>(problem.scale)), dk,
                call.stores);
  store_rows<R>(sums.dv, padded_width<R>(problem.d_v), R{1}, dv, call.stores);
}

// Adds what the shares before this one have left, and leaves the sum or, after the last one, writes it.
template <class M>
void finish_keys(const BackwardCall& call, const Unit& unit, const KeyShare& share) {
  using R = typename M::Real;
  const PackedUnit<M> packed(call, unit);
  R* HWY_RESTRICT own = packed.key_sums(unit.island.key_begin).dk;
  const std::int64_t count = packed.key_sums_size();
  R* HWY_RESTRICT total = Carver(share.total).take<R>(count);
  if (!share.is_first)
    for (std::int64_t i = 0; i < count; ++i) own[i] += total[i];
  if (!share.is_last) {
    std::copy_n(own, count, total);
    return;
  }
  for (std::int32_t block = unit.island.key_begin; block < unit.island.key_end; ++block)
    store_keys<M>(call, unit, block, packed.key_sums(block));
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_BACKWARD_PACK_INL_H_
