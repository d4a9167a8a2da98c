#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/score_rows_kernel.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include <cmath>

#include "hwy/highway.h"
#include "tile/cpu/rule_columns-inl.h"
#include "tile/cpu/rule_row-inl.h"
#include "tile/cpu/score_rows_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Rows that are turned at a time: those of a cache line of lanes.
inline constexpr std::int64_t kStrip = 16;

// Where columns of scores are turned into rows.
template <class R>
struct StripRoom {
  R* turned;    // [kStrip, keys]
  float* rows;  // the same in f32
  R* top;       // [lanes]
  float* tops;  // [kStrip]
  std::size_t bytes;

  StripRoom(const RowSize& size, Room room) {
    Carver carver(room);
    rows = carver.take<float>(kStrip * size.keys);
    if constexpr (std::is_same_v<R, float>)
      turned = rows;
    else
      turned = carver.take<R>(kStrip * size.keys);
    top = carver.take<R>(padded_width<R>(size.tile.query));
    tops = carver.take<float>(kStrip);
    bytes = carver.used();
  }
};

constexpr RowRule kNoRule{};

// S^T = K Q^T, modified, for all keys of a query block; then its rows, a strip at a time.
template <class R>
class ScoreBlock : RuleRow<R> {
 public:
  ScoreBlock(const ScoreRowsCall& call, const Unit& unit, HeadBlock queries, const ScoreRowsRoom& room)
      : RuleRow<R>({call.problem, call.rule == nullptr ? kNoRule : *call.rule, unit, queries, room.scratch}, false),
        call_(call),
        room_(room) {}

  void run() {
    this->score(call_.q);
    room_.runs.clear();
    this->each_block([&](std::int32_t, const auto&) {
      if (!room_.runs.empty() && room_.runs.back().begin + room_.runs.back().count == at_.k0)
        room_.runs.back().count += at_.kc;
      else
        room_.runs.push_back({at_.k0, at_.kc});
    });
    const std::int64_t keys = first_;
    const RowSize size{this->plan().tile(), keys, false};
    const StripRoom<R> strip(size, room_.scratch.subspan(t_.bytes));
    find_top(strip.top, keys);
    if (call_.rule != nullptr) this->apply_rule_to_row();
    for (std::int64_t c = 0; c < at_.qc; c += kStrip) visit(strip, c, std::min(kStrip, at_.qc - c), keys);
  }

 private:
  using RuleRow<R>::t_, RuleRow<R>::at_, RuleRow<R>::first_, RuleRow<R>::unit_, RuleRow<R>::queries_;

  HWY_NOINLINE void find_top(R* HWY_RESTRICT top, std::int64_t keys) const {
    const R* HWY_RESTRICT s = t_.s;
    std::fill_n(top, at_.lanes, -math::kInfinity<R>);
    for (std::int64_t j = 0; j < keys; ++j, s += at_.lanes)
      for (std::int64_t c = 0; c < at_.lanes; c += kChunk<R>)
        for (std::int64_t l = c; l < c + kChunk<R>; ++l) top[l] = math::larger(s[l], top[l]);
  }

  void visit(const StripRoom<R>& strip, std::int64_t c, std::int64_t count, std::int64_t keys) const {
    transpose_tile<R>({t_.s + c, at_.lanes}, {strip.turned, keys}, keys, count);
    if constexpr (!std::is_same_v<R, float>)
      for (std::int64_t i = 0; i < count * keys; ++i) strip.rows[i] = static_cast<float>(strip.turned[i]);
    for (std::int64_t i = 0; i < count; ++i) strip.tops[i] = static_cast<float>(strip.top[c + i]);
    call_.rows->visit({.piece = unit_.piece,
                       .head = queries_.head,
                       .query = at_.q0 + c,
                       .count = count,
                       .runs = room_.runs,
                       .scores = strip.rows,
                       .stride = keys,
                       .keys = keys,
                       .top = strip.tops},
                      room_.share);
  }

  const ScoreRowsCall& call_;
  const ScoreRowsRoom& room_;
};

// One thread's tile of weights.
template <class R>
struct WeightTileRoom {
  R* q_rows;      // [tile_q, d_k], times scale
  R* q;           // [d_k, lanes]
  R* s;           // [tile_k, lanes]: scores, then weights
  R* spare;       // [tile_k, lanes]: a bias tile
  R* statistic;   // [lanes]: infinity for lanes that weigh nothing
  float* narrow;  // [tile_k, lanes]: the weights in f32
  std::size_t bytes;

  WeightTileRoom(const Problem& problem, TileSize tile, Room room) {
    const std::int64_t lanes = padded_width<R>(tile.query);
    Carver carver(room);
    q_rows = carver.take<R>(tile.query * problem.d_k);
    q = carver.take<R>(problem.d_k * lanes);
    s = carver.take<R>(tile.key * lanes);
    spare = carver.take<R>(problem.bias.data != nullptr ? tile.key * lanes : 0);
    statistic = carver.take<R>(lanes);
    if constexpr (std::is_same_v<R, float>)
      narrow = s;
    else
      narrow = carver.take<float>(tile.key * lanes);
    bytes = carver.used();
  }
};

// S^T = K Q^T, modified; P = e^(S - lse): block by block, as backward rebuilds them.
template <class R>
class WeightBlock {
 public:
  WeightBlock(const ScoreRowsCall& call, const Unit& unit, HeadBlock queries, const ScoreRowsRoom& room)
      : call_(call),
        problem_(call.problem),
        unit_(unit),
        queries_(queries),
        share_(room.share),
        keys_(call.problem, unit),
        rows_{call.problem, *unit.piece, queries.head},
        modifier_(call.problem, *unit.piece, queries.head, Softmax::kUnit<R>),
        t_(call.problem, unit.plan().tile(), room.scratch),
        at_(query_tile<R>(unit, queries.block)) {}

  void run() {
    open();
    for (const Plan::Entry& entry : unit_.plan().row(queries_.block))
      for (std::int32_t block = entry.block; block < entry.block + entry.count; ++block) {
        at_.enter(unit_, block, entry.mask);
        score(keys_.block(block).k);
        weigh(at_, t_.s, t_.statistic, t_.narrow);
        call_.tiles->visit({.piece = unit_.piece,
                            .head = queries_.head,
                            .query = at_.q0,
                            .queries = at_.qc,
                            .key = at_.k0,
                            .keys = at_.kc,
                            .weights = t_.narrow,
                            .lanes = at_.lanes},
                           share_);
      }
  }

 private:
  void open() const {
    const R scale = static_cast<R>(problem_.scale) * Softmax::kUnit<R>;
    load_rows<R>(rows_(call_.q, at_, problem_.d_k), scale, t_.q_rows, problem_.d_k);
    turn_across<R>({t_.q_rows, problem_.d_k}, at_, problem_.d_k, t_.q);
    std::fill_n(t_.statistic, at_.lanes, math::kInfinity<R>);
    for (std::int64_t l = 0; l < at_.qc; ++l) {
      const std::int64_t row = unit_.piece->query_row(at_.q0 + l);
      const R lse = *static_cast<const R*>(element(call_.lse, dtype_of<R>, unit_.piece->batch, row, queries_.head));
      if (std::isfinite(lse)) t_.statistic[l] = Softmax::reopen(lse);
    }
  }

  void score(const R* k) const {
    const auto d = static_cast<std::size_t>(problem_.d_k), lanes = static_cast<std::size_t>(at_.lanes);
    Plain<R>::score(
        {k, static_cast<std::size_t>(keys_.ld_k), t_.q, lanes, t_.s, lanes, static_cast<std::size_t>(at_.kc), lanes, d},
        R{1}, nullptr);
    if (modifier_.touches(at_.mask)) modifier_.apply(at_, t_.s, t_.spare);
  }

  // A row that has no log-sum-exp may hold NaN.
  HWY_NOINLINE static void weigh(const TileAt& at, R* HWY_RESTRICT s, const R* HWY_RESTRICT statistic, float* narrow) {
    for_each_chunk<R>(at, [&](std::int64_t j, std::int64_t c) {
      R* HWY_RESTRICT x = s + j * at.lanes + c;
      const R* HWY_RESTRICT row = statistic + c;
      for (std::int64_t l = 0; l < kChunk<R>; ++l)
        x[l] = row[l] == math::kInfinity<R> ? R{0} : Softmax::again(x[l], row[l]);
    });
    if constexpr (!std::is_same_v<R, float>)
      for (std::int64_t i = 0; i < at.kc * at.lanes; ++i) narrow[i] = static_cast<float>(s[i]);
  }

  const ScoreRowsCall& call_;
  const Problem& problem_;
  const Unit& unit_;
  HeadBlock queries_;
  std::int64_t share_;
  RuleKeys<R> keys_;
  QueryRows rows_;
  ScoreModifier<R> modifier_;
  WeightTileRoom<R> t_;
  TileAt at_;
};

template <class R>
UnitBytes score_rows_unit(const Problem& problem, const Unit& unit) {
  return RuleKeys<R>(problem, without_room(unit)).bytes;
}

template <class R>
std::size_t score_rows_scratch(const Problem& problem, const RowSize& size) {
  return RuleScratch<R>(problem, size, {}).bytes + StripRoom<R>(size, {}).bytes;
}
template <class R>
std::size_t weight_tiles_scratch(const Problem& problem, const RowSize& size) {
  return WeightTileRoom<R>(problem, size.tile, {}).bytes;
}

template <class R>
void score_rows_pack(const ScoreRowsCall& call, const Unit& unit, std::int32_t key_block) {
  const RuleKeys<R> keys(call.problem, unit);
  load_rows<R>(key_rows(call.problem, call.k, unit, key_block, call.problem.d_k), R{1}, keys.block(key_block).k,
               keys.ld_k);
}

template <class R>
void score_rows_visit(const ScoreRowsCall& call, const Unit& unit, HeadBlock queries, const ScoreRowsRoom& room) {
  ScoreBlock<R>(call, unit, queries, room).run();
}
template <class R>
void weight_tiles_visit(const ScoreRowsCall& call, const Unit& unit, HeadBlock queries, const ScoreRowsRoom& room) {
  WeightBlock<R>(call, unit, queries, room).run();
}

template <class R>
struct ScoreRowsTable {
  static constexpr ScoreRowsKernel kKernel{score_rows_unit<R>, score_rows_scratch<R>, score_rows_pack<R>,
                                           score_rows_visit<R>};
};
template <class R>
struct WeightTilesTable {
  static constexpr ScoreRowsKernel kKernel{score_rows_unit<R>, weight_tiles_scratch<R>, score_rows_pack<R>,
                                           weight_tiles_visit<R>};
};

const ScoreRowsKernel* find_score_rows(bool is_double) { return choose_type<ScoreRowsTable>(is_double); }
const ScoreRowsKernel* find_weight_tiles(bool is_double) { return choose_type<WeightTilesTable>(is_double); }

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::tile {
HWY_EXPORT(find_score_rows);
HWY_EXPORT(find_weight_tiles);

const ScoreRowsKernel& score_rows_kernel(const ScoreRowsCall& call) {
  numbers_of(call.problem);  // reads FOVEA_ISA at the first question
  const bool is_double = call.problem.dtype == DType::f64;
  return call.tiles != nullptr ? *HWY_DYNAMIC_DISPATCH(find_weight_tiles)(is_double)
                               : *HWY_DYNAMIC_DISPATCH(find_score_rows)(is_double);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
