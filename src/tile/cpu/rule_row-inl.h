// What forward and backward of the row rules share: a unit's packed keys, a thread's scratch, and the scores of all
// keys of a query block.

#if defined(FOVEA_TILE_CPU_RULE_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_RULE_ROW_INL_H_
#undef FOVEA_TILE_CPU_RULE_ROW_INL_H_
#else
#define FOVEA_TILE_CPU_RULE_ROW_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "tile/cpu/backward_pack-inl.h"
#include "tile/cpu/operands-inl.h"
#include "tile/cpu/rule_columns-inl.h"
#include "tile/cpu/rule_kernel.h"
#include "tile/cpu/units.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Keys and values of a unit and, in backward, the sums of their gradients. Rows are padded.
template <class R>
class RuleKeys {
 public:
  struct Block {
    R* k;  // [tile_k, ld_k]
    R* v;  // [tile_k, ld_v]
    R* dk;
    R* dv;
    std::int32_t* turns;  // query blocks that have added to the sums
    std::uint8_t* finite_k;
    std::uint8_t* finite_v;
  };
  std::int64_t ld_k, ld_v;
  UnitBytes bytes;

  RuleKeys(const Problem& problem, const Unit& unit)
      : ld_k(padded_width<R>(problem.d_k)),
        ld_v(padded_width<R>(problem.d_v)),
        k_size_(unit.plan().tile_k * ld_k),
        v_size_(unit.plan().tile_k * ld_v),
        first_(unit.island.key_begin) {
    const std::int64_t blocks = unit.key_blocks(), summed = unit.sums_keys ? blocks : 0;
    Carver keys(unit.room.keys), sums(unit.room.sums), notes(unit.room.notes);
    k_ = keys.take<R>(blocks * k_size_);
    v_ = keys.take<R>(blocks * v_size_);
    dk_ = sums.take<R>(summed * k_size_);
    dv_ = sums.take<R>(summed * v_size_);
    turns_ = notes.take<std::int32_t>(blocks);
    finite_ = notes.take<std::uint8_t>(2 * blocks);
    bytes = {.keys = keys.used(), .sums = sums.used(), .notes = notes.used()};
  }

  Block block(std::int32_t key_block) const {
    const std::int64_t i = key_block - first_;
    return {k_ + i * k_size_, v_ + i * v_size_, dk_ + i * k_size_,  dv_ + i * v_size_,
            turns_ + i,       finite_ + 2 * i,  finite_ + 2 * i + 1};
  }

 private:
  std::int64_t k_size_, v_size_;
  std::int32_t first_;
  R *k_, *v_, *dk_, *dv_;
  std::int32_t* turns_;
  std::uint8_t* finite_;
};

// One thread's rows of scores and tiles.
template <class R>
struct RuleScratch {
  R* s;                    // [keys, lanes]: scores, then weights
  R* g;                    // [keys, lanes]: gradients of the weights, then of the scores; null in forward
  std::int64_t* diagonal;  // [lanes]
  R* q;                    // [tile_q, ld_k], times scale
  R* q_across;             // [d_k, lanes]
  R* spare;                // [tile_k, lanes]: a bias tile or a dropout mask
  R* o;                    // [d_v, lanes]: forward only
  R* rows;                 // [tile_q, d_v]: forward only
  R* d_o;                  // [tile_q, ld_v]: backward only, like the rest
  R* do_across;            // [d_v, lanes]
  R* dq;                   // [tile_q, ld_k]
  R* turned;               // [tile_q, tile_k]: score gradients on their way to d_bias
  std::size_t bytes;

  RuleScratch(const Problem& problem, const RowSize& size, Room room) {
    const std::int64_t lanes = padded_width<R>(size.tile.query), queries = size.tile.query;
    const std::int64_t ld_k = padded_width<R>(problem.d_k), ld_v = padded_width<R>(problem.d_v);
    const bool extra = problem.bias.data != nullptr || problem.dropout.p > 0;
    const std::int64_t forward = size.backward ? 0 : 1, backward = size.backward ? 1 : 0;
    Carver carver(room);
    s = carver.take<R>(size.keys * lanes);
    g = size.backward ? carver.take<R>(size.keys * lanes) : nullptr;
    diagonal = carver.take<std::int64_t>(lanes);
    q = carver.take<R>(queries * ld_k);
    q_across = carver.take<R>(problem.d_k * lanes);
    spare = carver.take<R>(extra ? size.tile.key * lanes : 0);
    o = carver.take<R>(forward * problem.d_v * lanes);
    rows = carver.take<R>(forward * queries * problem.d_v);
    d_o = carver.take<R>(backward * queries * ld_v);
    do_across = carver.take<R>(backward * problem.d_v * lanes);
    dq = carver.take<R>(backward * queries * ld_k);
    turned = carver.take<R>(problem.bias.data != nullptr ? backward * queries * size.tile.key : 0);
    bytes = carver.used();
  }
};

// One query block of one head, and where to work on it.
struct RuleTask {
  const Problem& problem;
  const RowRule& rule;
  const Unit& unit;
  HeadBlock queries;
  Room scratch;
};

// Its whole row of the plan.
template <class R>
class RuleRow {
 protected:
  using Block = typename RuleKeys<R>::Block;

  RuleRow(const RuleTask& task, bool backward)
      : problem_(task.problem),
        rule_(task.rule),
        unit_(task.unit),
        queries_(task.queries),
        keys_(task.problem, task.unit),
        t_(task.problem, size_of_row(task, backward), task.scratch),
        rows_{task.problem, *task.unit.piece, task.queries.head},
        modifier_(task.problem, *task.unit.piece, task.queries.head, R{1}),
        dropout_(task.problem, *task.unit.piece, task.queries.head),
        at_(query_tile<R>(task.unit, task.queries.block)) {}

  const Plan& plan() const { return unit_.plan(); }
  // The part of the present key block in `all` rows.
  R* tile(R* all) const { return all + first_ * at_.lanes; }

  // Calls f(key block, its packed rows) for the blocks of the row in order; at_ and tile() are then theirs.
  template <class F>
  void each_block(F&& f) {
    first_ = 0;
    for (const Plan::Entry& entry : plan().row(queries_.block))
      for (std::int32_t block = entry.block; block < entry.block + entry.count; ++block, first_ += at_.kc) {
        at_.enter(unit_, block, entry.mask);
        f(block, keys_.block(block));
      }
  }

  // Where rows of queries are put: as they are, and transposed.
  struct Operand {
    std::int64_t width;
    R* rows;  // [tile_q, ld]
    std::int64_t ld;
    R* across;  // [width, lanes]
  };
  // Returns whether every element is finite.
  bool load(const Rows<const void*>& from, R scale, const Operand& to) const {
    const bool finite = load_rows<R>(from, scale, to.rows, to.ld);
    turn_across<R>({to.rows, to.ld}, at_, to.width, to.across);
    return finite;
  }

  // S^T = K Q^T, modified. Returns whether the queries are finite.
  bool score(const In& q) {
    const bool finite = load(rows_(q, at_, problem_.d_k), static_cast<R>(problem_.scale),
                             {problem_.d_k, t_.q, keys_.ld_k, t_.q_across});
    std::fill_n(t_.diagonal, at_.lanes, std::int64_t{-1});
    each_block([&](std::int32_t, const Block& keys) {
      const auto lanes = static_cast<std::size_t>(at_.lanes);
      Plain<R>::score(
          {keys.k, size(keys_.ld_k), t_.q_across, lanes, tile(t_.s), lanes, size(at_.kc), lanes, size(problem_.d_k)},
          R{1}, nullptr);
      if (modifier_.touches(at_.mask)) modifier_.apply(at_, tile(t_.s), t_.spare);
      find_diagonal();
    });
    return finite;
  }

  // Scores become weights; in backward also gradients of the weights those of the scores.
  void apply_rule_to_row() const { function_of<R>(rule_.kind)(rule_, {t_.s, t_.g, first_, at_.lanes, t_.diagonal}); }

  // C += A B where a zero weight hides what it meets.
  template <Order kOrder>
  static void add(const Product<R>& p, bool finite, bool weights_are_b = false) {
    finite ? Plain<R>::template add<kOrder>(p) : product_hiding<Plain<R>>(p, kOrder, weights_are_b);
  }
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  const Problem& problem_;
  const RowRule& rule_;
  const Unit& unit_;
  HeadBlock queries_;
  RuleKeys<R> keys_;
  RuleScratch<R> t_;
  QueryRows rows_;
  ScoreModifier<R> modifier_;
  WeightDropout dropout_;
  TileAt at_;
  std::int64_t first_ = 0;  // the row's keys before the present block; after the last block, all of them

 private:
  static RowSize size_of_row(const RuleTask& task, bool backward) {
    const Plan& plan = task.unit.plan();
    return {plan.tile(), count_blocks(plan.row(task.queries.block)) * plan.tile_k, backward};
  }

  // Notes the lanes whose own position is in this block.
  void find_diagonal() const {
    const std::int64_t shift = at_.q0 + unit_.piece->nk - unit_.piece->nq - at_.k0;  // of the first lane, in the block
    for (std::int64_t i = std::max<std::int64_t>(0, -shift); i < std::min(at_.qc, at_.kc - shift); ++i)
      t_.diagonal[i] = first_ + shift + i;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_RULE_ROW_INL_H_
