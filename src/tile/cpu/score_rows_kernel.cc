#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/score_rows_kernel.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
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

template <class R>
std::size_t score_rows_scratch(const Problem& problem, const RowSize& size) {
  return RuleScratch<R>(problem, size, {}).bytes + StripRoom<R>(size, {}).bytes;
}

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
    call_.visitor.visit({.piece = unit_.piece,
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

template <class R>
UnitBytes score_rows_unit(const Problem& problem, const Unit& unit) {
  return RuleKeys<R>(problem, without_room(unit)).bytes;
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
struct ScoreRowsTable {
  static constexpr ScoreRowsKernel kKernel{score_rows_unit<R>, score_rows_scratch<R>, score_rows_pack<R>,
                                           score_rows_visit<R>};
};

const ScoreRowsKernel* find_score_rows(bool is_double) {
  return is_double ? &ScoreRowsTable<double>::kKernel : &ScoreRowsTable<float>::kKernel;
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::tile {
HWY_EXPORT(find_score_rows);

const ScoreRowsKernel& score_rows_kernel(const Problem& problem) {
  numbers_of(problem);  // reads FOVEA_ISA at the first question
  return *HWY_DYNAMIC_DISPATCH(find_score_rows)(problem.dtype == DType::f64);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
