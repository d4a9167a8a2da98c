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
#include "tile/cpu/rows-inl.h"
#include "tile/cpu/score-inl.h"
#include "tile/cpu/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Rows of vector operands, padded.
template <class R>
std::int64_t padded_width(std::int64_t width) {
  return static_cast<std::int64_t>(padded<R>(static_cast<std::size_t>(width)));
}

// One key block. ld_k, ld_v: padded widths.
template <class R>
struct KeySlot {
  R* k;                  // [tile_k, ld_k]: broadcast in the scores, rows in dq
  R* v;                  // [tile_k, d_v]: broadcast only
  std::uint8_t* finite;  // of k
};

// One query block of one head.
template <class R>
struct QuerySlot {
  R* q;          // [tile_q, ld_k], times scale
  R* q_across;   // [d_k, lanes], times scale and unit: the score operand
  R* d_o;        // [tile_q, ld_v]
  R* do_across;  // [d_v, lanes]
  R* statistic;  // [lanes], as the weight policy's `again` wants it
  R* delta;      // [lanes]: rowsum(dO * O) - dLSE
  std::uint8_t* finite_q;
  std::uint8_t* finite_do;
  R* dq;                     // [tile_q, ld_k] of split 0
  std::int64_t dq_of_split;  // distance to the next split's
};

// The slots of a unit: keys and values once, and the queries of every head of its group.
template <class R>
class PackedUnit {
 public:
  std::int64_t ld_k, ld_v, lanes;

  PackedUnit(const BackwardCall& call, const Unit& unit)
      : ld_k(padded_width<R>(call.problem.d_k)),
        ld_v(padded_width<R>(call.problem.d_v)),
        lanes(padded_width<R>(unit.plan().tile_q)),
        unit_(&unit),
        tile_q_(unit.plan().tile_q),
        tile_k_(unit.plan().tile_k),
        d_k_(call.problem.d_k),
        d_v_(call.problem.d_v),
        heads_(heads_of(call.problem, unit.kv_head)) {
    const std::int64_t queries = heads_.size() * unit.query_slots, keys = unit.key_slots;
    Carver packed(unit.packed), sums(unit.sums), notes(unit.notes);
    k_ = packed.take<R>(keys * tile_k_ * ld_k);
    v_ = packed.take<R>(keys * tile_k_ * d_v_);
    q_ = packed.take<R>(queries * tile_q_ * ld_k);
    q_across_ = packed.take<R>(queries * d_k_ * lanes);
    d_o_ = packed.take<R>(queries * tile_q_ * ld_v);
    do_across_ = packed.take<R>(queries * d_v_ * lanes);
    dq_ = sums.take<R>(call.splits * queries * tile_q_ * ld_k);
    statistic_ = notes.take<R>(queries * lanes);
    delta_ = notes.take<R>(queries * lanes);
    finite_ = notes.take<std::uint8_t>(keys + 2 * queries);
    bytes_ = {packed.used(), sums.used(), notes.used()};
  }

  KeySlot<R> keys(std::int32_t key_block) const {
    const std::int64_t i = unit_->key_slot(key_block);
    return {k_ + i * tile_k_ * ld_k, v_ + i * tile_k_ * d_v_, finite_ + i};
  }

  QuerySlot<R> queries(HeadBlock q) const {
    const std::int64_t i = (q.head - heads_.begin) * unit_->query_slots + unit_->query_slot(q.block);
    std::uint8_t* finite = finite_ + unit_->key_slots + 2 * i;
    return {q_ + i * tile_q_ * ld_k,
            q_across_ + i * d_k_ * lanes,
            d_o_ + i * tile_q_ * ld_v,
            do_across_ + i * d_v_ * lanes,
            statistic_ + i * lanes,
            delta_ + i * lanes,
            finite,
            finite + 1,
            dq_ + i * tile_q_ * ld_k,
            heads_.size() * unit_->query_slots * tile_q_ * ld_k};
  }

  UnitBytes bytes() const { return bytes_; }

 private:
  const Unit* unit_;
  std::int64_t tile_q_, tile_k_, d_k_, d_v_;
  HeadRange heads_;
  R *k_, *v_, *q_, *q_across_, *d_o_, *do_across_, *dq_, *statistic_, *delta_;
  std::uint8_t* finite_;
  UnitBytes bytes_;
};

// One thread's tiles.
template <class R>
struct BackwardScratch {
  R* s;       // [tile_k, lanes]: scores, then weights
  R* ds;      // [tile_k, lanes]: gradients of the weights, then of the scores
  R* spare;   // [tile_k, lanes]: a bias tile or a dropout mask
  R* turned;  // [tile_q, tile_k]: score gradients on their way to d_bias
  R* dk;      // [tile_k, ld_k]
  R* dv;      // [tile_k, ld_v]
  R* rows;    // [tile_q, max(d_k, d_v)]
  std::size_t bytes;

  BackwardScratch(const Problem& problem, TileSize tile, void* base) {
    const std::int64_t lanes = padded_width<R>(tile.query);
    const bool extra = problem.bias.data != nullptr || problem.dropout.p > 0;
    Carver carver(base);
    s = carver.take<R>(tile.key * lanes);
    ds = carver.take<R>(tile.key * lanes);
    spare = carver.take<R>(extra ? tile.key * lanes : 0);
    turned = carver.take<R>(problem.bias.data != nullptr ? std::int64_t{tile.query} * tile.key : 0);
    dk = carver.take<R>(tile.key * padded_width<R>(problem.d_k));
    dv = carver.take<R>(tile.key * padded_width<R>(problem.d_v));
    rows = carver.take<R>(tile.query * std::max(problem.d_k, problem.d_v));
    bytes = carver.used();
  }
};

// The queries of a tile; its keys are filled in by those who have any.
template <class R>
TileAt query_tile(const Unit& unit, std::int32_t query_block) {
  TileAt at{};
  at.q0 = std::int64_t{query_block} * unit.plan().tile_q;
  at.qc = std::min<std::int64_t>(unit.plan().tile_q, unit.piece->nq - at.q0);
  at.lanes = padded_width<R>(at.qc);
  at.mask = Plan::kWhole;
  return at;
}

template <class R>
void pack_keys(const BackwardCall& call, const Unit& unit, std::int32_t key_block) {
  const Problem& problem = call.problem;
  const PackedUnit<R> packed(call, unit);
  const KeySlot<R> to = packed.keys(key_block);
  const auto k = key_rows(problem, call.io.k, unit, key_block, problem.d_k);
  const auto v = key_rows(problem, call.io.v, unit, key_block, problem.d_v);
  *to.finite = load_rows<R>(k, R{1}, to.k, packed.ld_k);
  load_rows<R>(v, R{1}, to.v, problem.d_v);
}

// Packs one query block of one head.
template <class R, class W>
class QueryPacker {
 public:
  QueryPacker(const BackwardCall& call, const Unit& unit, HeadBlock queries, std::byte* scratch)
      : call_(call),
        problem_(call.problem),
        piece_(*unit.piece),
        head_(queries.head),
        unit_(call, unit),
        to_(unit_.queries(queries)),
        at_(query_tile<R>(unit, queries.block)),
        rows_(BackwardScratch<R>(call.problem, {unit.plan().tile_q, unit.plan().tile_k}, scratch).rows) {}

  void run() const {
    const R scale = static_cast<R>(problem_.scale);
    const auto q = rows(call_.io.q, problem_.d_k), d_o = rows(call_.io.d_o, problem_.d_v);
    read_statistics();
    *to_.finite_q = load_rows<R>(q, scale, to_.q, unit_.ld_k);
    *to_.finite_do = load_rows<R>(d_o, R{1}, to_.d_o, unit_.ld_v);
    clear_empty(to_.q, unit_.ld_k);
    clear_empty(to_.d_o, unit_.ld_v);
    if constexpr (W::kHasTop) subtract_outputs();
    // The score operand is rounded as in forward, so that the rebuilt scores have the same bits.
    load_rows<R>(q, scale * W::template kUnit<R>, rows_, problem_.d_k);
    clear_empty(rows_, problem_.d_k);
    turn({rows_, problem_.d_k}, to_.q_across, problem_.d_k);
    turn({to_.d_o, unit_.ld_v}, to_.do_across, problem_.d_v);
    for (std::int64_t split = 0; split < call_.splits; ++split)
      std::fill_n(to_.dq + split * to_.dq_of_split, at_.qc * unit_.ld_k, R{0});
  }

 private:
  Rows<const void*> rows(const In& array, std::int64_t width) const {
    return QueryRows{problem_, piece_, head_}(array, at_, width);
  }
  R statistic_at(const In& array, std::int64_t i) const {
    return *static_cast<const R*>(element(array, dtype_of<R>, piece_.batch, piece_.q0 + at_.q0 + i, head_));
  }
  bool is_empty(std::int64_t i) const { return W::kHasTop && to_.statistic[i] == math::kInfinity<R>; }

  void read_statistics() const {
    std::fill_n(to_.statistic, at_.lanes, math::kInfinity<R>);  // padding lanes weigh nothing
    std::fill_n(to_.delta, at_.lanes, R{0});
    if constexpr (W::kHasTop)
      for (std::int64_t i = 0; i < at_.qc; ++i) to_.statistic[i] = W::reopen(statistic_at(call_.io.lse, i));
  }

  // Nothing of an empty row may reach a gradient, not even its NaN.
  void clear_empty(R* rows, std::int64_t ld) const {
    for (std::int64_t i = 0; i < at_.qc; ++i)
      if (is_empty(i)) std::fill_n(rows + i * ld, ld, R{0});
  }

  void subtract_outputs() const {
    load_rows<R>(rows(call_.io.o, problem_.d_v), R{1}, rows_, problem_.d_v);
    for (std::int64_t i = 0; i < at_.qc; ++i) {
      if (is_empty(i)) continue;
      const R* HWY_RESTRICT o = rows_ + i * problem_.d_v;
      const R* HWY_RESTRICT g = to_.d_o + i * unit_.ld_v;
      R sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < problem_.d_v; ++c) sum += o[c] * g[c];
      to_.delta[i] = call_.io.d_lse.data == nullptr ? sum : sum - statistic_at(call_.io.d_lse, i);
    }
  }

  void turn(Rectangle<const R> from, R* to, std::int64_t width) const {
    if (at_.qc < at_.lanes) std::fill_n(to, width * at_.lanes, R{0});
    turn_tile<R>(from, {to, at_.lanes}, at_.qc, width);
  }

  const BackwardCall& call_;
  const Problem& problem_;
  const Piece& piece_;
  std::int64_t head_;
  PackedUnit<R> unit_;
  QuerySlot<R> to_;
  TileAt at_;
  R* rows_;
};

template <class R, class W>
void pack_queries(const BackwardCall& call, const Unit& unit, HeadBlock queries, std::byte* scratch) {
  QueryPacker<R, W>(call, unit, queries, scratch).run();
}

// Adds the splits' sums in order and writes dq.
template <class R>
void finish(const BackwardCall& call, const Unit& unit, HeadBlock queries) {
  const PackedUnit<R> packed(call, unit);
  const QuerySlot<R> slot = packed.queries(queries);
  const TileAt at = query_tile<R>(unit, queries.block);
  R* HWY_RESTRICT sum = slot.dq;
  for (std::int64_t split = 1; split < call.splits; ++split) {
    const R* HWY_RESTRICT more = slot.dq + split * slot.dq_of_split;
    for (std::int64_t i = 0; i < at.qc * packed.ld_k; ++i) sum[i] += more[i];
  }
  const auto to = QueryRows{call.problem, *unit.piece, queries.head}(call.io.dq, at, call.problem.d_k);
  store_rows<R>(sum, packed.ld_k, static_cast<R>(call.problem.scale), to, call.keep);
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_BACKWARD_PACK_INL_H_
