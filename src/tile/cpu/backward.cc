#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "tile/check.h"
#include "tile/contract.h"
#include "tile/cpu/band.h"
#include "tile/cpu/bias_gradient.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/turns.h"
#include "tile/cpu/units.h"

namespace fovea::tile {
namespace {

constexpr std::size_t kWaveBytes = std::size_t{64} << 20;   // packed heads at a time, or one
constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // so that every thread has a head of its own
constexpr std::size_t kRingBytes = std::size_t{640} << 10;  // what a core's own cache holds beside the tiles
constexpr std::size_t kStripBytes = std::size_t{1600} << 10;
constexpr std::size_t kEnoughTasks = 8;    // to do without threads that share one
constexpr std::int64_t kShareRows = 1024;  // queries whose dk and dv are summed apart
constexpr std::int64_t kEnoughUnits = 4;   // for each thread

// Sums of dk and dv over the shares of each unit, which are added in order.
class UnitTotals {
 public:
  template <class BytesOf>
  UnitTotals(const Context& context, const std::vector<Unit>& units, const BytesOf& bytes_of)
      : turns_(units.size(), 0), memory_(context, place(units, bytes_of)) {}

  // Runs body(the unit's total) after `before` others.
  template <class Body>
  void take_turn(std::size_t unit, std::int32_t before, const Body& body) {
    await_turn(turns_[unit], before);
    body(memory_.all().subspan(at_[unit], at_[unit + 1] - at_[unit]));
    pass_turn(turns_[unit]);
  }

 private:
  template <class BytesOf>
  std::size_t place(const std::vector<Unit>& units, const BytesOf& bytes_of) {
    for (const Unit& unit : units) at_.push_back(at_.back() + bytes_of(unit));
    return at_.back();
  }

  std::vector<std::int32_t> turns_;
  std::vector<std::size_t> at_{0};  // where each unit's bytes begin, and the last one's end
  Scratch<std::byte> memory_;
};

// Three ways to divide the work:
// - in waves: pack what a few units need, run their key blocks, write dq;
// - in rings (windows, block-diagonal patterns, short sequences): a thread walks the key blocks of a unit, packs blocks
//   just before they are needed and writes dq as soon as it is complete, so that nothing leaves the core's cache;
// - in strips (few keys, many queries): the keys of a unit and the sums of their gradients stay in the core's cache,
// and a
//   thread walks a share of the query blocks, packing each just before it is needed.
// The first two give the same bits. The third sums dk and dv by shares, which follow from the shape: the same bits,
// too, at any number of threads.
class BackwardDriver {
 public:
  BackwardDriver(const Context& context, const Problem& problem, const Backward& io)
      : context_(context),
        units_(list_units(problem, [](const Plan& plan) { return plan.islands; })),
        sharing_(sharing_of(problem, io.d_bias)),
        call_{problem, io, false, sharing_.any(), store_mode_for(problem)},
        kernel_(backward_kernel(problem)),
        scratch_bytes_(
            most_bytes(problem, [&](const Plan& plan) { return kernel_.scratch_bytes(problem, plan.tile()); })),
        scratch_(context, scratch_bytes_ * static_cast<std::size_t>(context.threads())) {}

  void run() {
    clear_bias_gradient(context_, call_.problem, call_.io.d_bias);
    if (run_rings() || run_strips()) return;
    run_waves();
  }

 private:
  // One unit's share of a stage: a block, or all of them.
  struct Task {
    const Unit* unit;
    std::int64_t head;
    std::int32_t block;
  };
  static constexpr std::int32_t kAll = -1;

  UnitBytes unit_bytes(const Unit& unit) const { return kernel_.unit_bytes(call_, unit); }
  Room scratch_of(int rank) const { return scratch_.part(static_cast<std::size_t>(rank), scratch_bytes_); }

  template <class Body>
  void for_each(const std::vector<Task>& tasks, Body&& body) const {
    const auto count = static_cast<std::int64_t>(tasks.size());
    parallel(context_.threads(), [&](const Team& team) {
      for (std::int64_t i = team.take(); i < count; i = team.take()) body(tasks[static_cast<std::size_t>(i)], team);
    });
  }

  void run_waves() {
    const auto bytes = [&](const Unit& unit) { return unit_bytes(unit).all(); };
    for (const Wave& wave : cut_waves(units_, wave_budget(), bytes)) run_wave(wave);
  }

  // Threads with units of their own never wait for a turn, which patterns of few long columns would have them do.
  std::size_t wave_budget() const {
    if (sharing_.units) return 0;  // one unit after the other
    std::size_t largest = 0;
    for (const Unit& unit : units_) largest = std::max(largest, unit_bytes(unit).all());
    return std::max(kWaveBytes, std::min(kMostBytes, largest * static_cast<std::size_t>(context_.threads())));
  }

  void run_wave(const Wave& wave) {
    const UnitMemory memory(context_, std::span(units_).subspan(wave.begin, wave.end - wave.begin),
                            [&](const Unit& unit) { return unit_bytes(unit); });
    const std::vector<Task> queries = query_tasks(wave);
    for_each(key_tasks(wave), [&](const Task& task, const Team&) { kernel_.pack_keys(call_, *task.unit, task.block); });
    for_each(queries, [&](const Task& task, const Team& team) {
      kernel_.pack_queries(call_, *task.unit, {task.head, task.block}, scratch_of(team.rank()));
    });
    call_.in_turns = !has_enough_units(wave);
    for_each(call_.in_turns ? key_tasks(wave) : unit_tasks(wave),
             [&](const Task& task, const Team& team) { vjp(task, team); });
    for_each(queries, [&](const Task& task, const Team&) {
      kernel_.finish(call_, *task.unit, {task.head, task.block});
    });
  }

  // Whether threads can have whole units, which spares them reading each other's, and none is left over for long.
  bool has_enough_units(const Wave& wave) const {
    const auto units = static_cast<std::int64_t>(wave.end - wave.begin), threads = std::int64_t{context_.threads()};
    return !sharing_.is_ordered_by_turns() || units % threads == 0 || units >= kEnoughUnits * threads;
  }

  void vjp(const Task& task, const Team& team) const {
    const Room scratch = scratch_of(team.rank());
    if (task.block != kAll) return kernel_.vjp(call_, *task.unit, {task.block, task.block + 1}, scratch, nullptr);
    const Unit& unit = *task.unit;
    const std::int32_t blocks = vjp_blocks(call_.problem, unit.plan().tile_k);
    for (std::int32_t block = unit.island.key_begin; block < unit.island.key_end; block += blocks) {
      if (team.stopping()) return;
      kernel_.vjp(call_, unit, {block, std::min(block + blocks, unit.island.key_end)}, scratch, nullptr);
    }
  }

  std::vector<Task> key_tasks(const Wave& wave) const {
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i)
      for (std::int32_t block = units_[i].island.key_begin; block < units_[i].island.key_end; ++block)
        tasks.push_back({&units_[i], 0, block});
    return tasks;
  }
  std::vector<Task> query_tasks(const Wave& wave) const {
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i) {
      const HeadRange heads = heads_of(call_.problem, units_[i].kv_head);
      for (std::int64_t head = heads.begin; head < heads.end; ++head)
        for (std::int32_t block = units_[i].island.query_begin; block < units_[i].island.query_end; ++block)
          tasks.push_back({&units_[i], head, block});
    }
    return tasks;
  }
  // The largest units first.
  std::vector<Task> unit_tasks(const Wave& wave) const {
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i) tasks.push_back({&units_[i], 0, kAll});
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
      return a.unit->keys() * a.unit->queries() > b.unit->keys() * b.unit->queries();
    });
    return tasks;
  }

  // Tries the ring form: false when units are few, must follow one another, or need more than a core's cache.
  bool run_rings() {
    if (sharing_.units || units_.size() < kEnoughTasks) return false;
    std::vector<Unit> rings = units_;
    std::size_t largest = 0;
    for (Unit& unit : rings) {
      unit.query_slots = Band::widest(unit.plan(), unit.island);
      unit.key_slots = 1;
      if (unit.query_slots == 0) return false;
      largest = std::max(largest, unit_bytes(unit).all());
    }
    if (largest > kRingBytes) return false;
    const Scratch<std::byte> memory(context_, largest * static_cast<std::size_t>(context_.threads()));
    for_each_unit(context_, call_.problem, rings, [&](Unit unit, const Unit* following, int rank) {
      unit.room = divide(memory.part(static_cast<std::size_t>(rank), largest), unit_bytes(unit));
      run_ring(unit, following, scratch_of(rank));
    });
    return true;
  }

  void run_ring(const Unit& unit, const Unit* following, Room scratch) const {
    Band band(unit.plan(), unit.island), ahead = band;
    ahead.opens_at(unit.island.key_begin);
    std::int32_t key_block = unit.island.key_begin;
    do {
      const bool has_keys = key_block < unit.island.key_end;  // an island without keys still has rows of dq
      if (has_keys) kernel_.pack_keys(call_, unit, key_block);
      for_each_query(unit, band.opens_at(key_block),
                     [&](HeadBlock queries) { kernel_.pack_queries(call_, unit, queries, scratch); });
      Prefetch next;
      if (key_block + 1 < unit.island.key_end)
        fetch(unit, key_block + 1, ahead.opens_at(key_block + 1), next);
      else if (following != nullptr)
        fetch_first(*following, next);
      if (has_keys) vjp_while_fetching(unit, key_block, scratch, next);
      const Band::Range complete = band.closes_at(key_block);
      for_each_query(unit, complete, [&](HeadBlock queries) { kernel_.finish(call_, unit, queries); });
    } while (++key_block < unit.island.key_end);
  }

  // A range of a unit's query blocks.
  struct Share {
    std::size_t unit;
    std::int32_t index, begin, end;
    bool is_last;
  };

  // Tries the strip form: false when shares are few, or keys too many for a core's cache or for the queries.
  bool run_strips() {
    if (sharing_.any()) return false;
    std::vector<Unit> strips = units_;
    std::size_t largest = 0;
    for (Unit& unit : strips) {
      unit.query_slots = 1;
      unit.sums_keys = true;
      if (unit.queries() < unit.keys()) return false;
      largest = std::max(largest, unit_bytes(unit).all());
    }
    const std::vector<Share> shares = cut_shares(strips);
    if (largest > kStripBytes || shares.size() < kEnoughTasks) return false;
    UnitTotals totals(context_, strips, [&](const Unit& unit) { return key_sums_bytes(unit); });
    const Scratch<std::byte> memory(context_, largest * static_cast<std::size_t>(context_.threads()));
    parallel(context_.threads(), [&](const Team& team) {
      for (auto i = static_cast<std::size_t>(team.take()); i < shares.size();
           i = static_cast<std::size_t>(team.take())) {
        Unit unit = strips[shares[i].unit];
        unit.room = divide(memory.part(static_cast<std::size_t>(team.rank()), largest), unit_bytes(unit));
        run_share(unit, shares[i], totals, scratch_of(team.rank()));
      }
    });
    return true;
  }

  // The first shares of all units, then the second ones and so on: neighbours share rows, and a share seldom has to
  // wait for the one before it.
  static std::vector<Share> cut_shares(const std::vector<Unit>& units) {
    std::vector<Share> shares;
    bool more = true;
    for (std::int32_t s = 0; more; ++s) {
      more = false;
      for (std::size_t u = 0; u < units.size(); ++u) {
        const Plan::Island& island = units[u].island;
        const auto blocks = static_cast<std::int32_t>(std::max<std::int64_t>(1, kShareRows / units[u].plan().tile_q));
        const std::int32_t begin = island.query_begin + s * blocks, end = std::min(begin + blocks, island.query_end);
        if (s > 0 && begin >= island.query_end) continue;
        shares.push_back({u, s, begin, end, end == island.query_end});
        more |= end < island.query_end;
      }
    }
    return shares;
  }

  std::size_t key_sums_bytes(Unit unit) const {
    const std::size_t with = unit_bytes(unit).sums;
    unit.sums_keys = false;
    return with - unit_bytes(unit).sums;
  }

  void run_share(const Unit& unit, const Share& share, UnitTotals& totals, Room scratch) const {
    for (std::int32_t block = unit.island.key_begin; block < unit.island.key_end; ++block)
      kernel_.pack_keys(call_, unit, block);
    const std::int64_t heads = heads_of(call_.problem, unit.kv_head).size();
    for (std::int32_t block = share.begin; block < share.end; ++block) {
      Prefetch next;
      if (block + 1 < share.end) fetch_queries(unit, {block + 1, block + 2}, next);
      next.spread(5 * register_tiles(unit.plan(), heads * count_blocks(unit.plan().row(block))));
      for_each_query(unit, {block, block + 1}, [&](HeadBlock queries) {
        kernel_.pack_queries(call_, unit, queries, scratch);
        kernel_.vjp_row(call_, unit, queries, scratch, &next);
        kernel_.finish(call_, unit, queries);
      });
    }
    totals.take_turn(share.unit, share.index, [&](Room total) {
      if (unit.keys() > 0) kernel_.finish_keys(call_, unit, {total, share.index == 0, share.is_last});
    });
  }

  template <class Body>
  void for_each_query(const Unit& unit, Band::Range blocks, Body&& body) const {
    const HeadRange heads = heads_of(call_.problem, unit.kv_head);
    for (std::int64_t head = heads.begin; head < heads.end; ++head)
      for (std::int32_t block = blocks.begin; block < blocks.end; ++block) body(HeadBlock{head, block});
  }

  void vjp_while_fetching(const Unit& unit, std::int32_t key_block, Room scratch, Prefetch& next) const {
    const std::int64_t heads = heads_of(call_.problem, unit.kv_head).size();
    next.spread(5 * register_tiles(unit.plan(), heads * count_blocks(unit.plan().column(key_block))));
    kernel_.vjp(call_, unit, {key_block, key_block + 1}, scratch, &next);
  }

  void fetch_first(const Unit& unit, Prefetch& next) const {
    const std::int32_t key_block = unit.island.key_begin;
    fetch(unit, key_block, Band(unit.plan(), unit.island).opens_at(key_block), next);
  }

  void fetch(const Unit& unit, std::int32_t key_block, Band::Range queries, Prefetch& next) const {
    const UnitFetch fetch{call_.problem, unit, next};
    fetch.keys({key_block, key_block + 1}, call_.io.k, call_.io.v);
    fetch_queries(unit, {queries.begin, queries.end}, next);
  }

  void fetch_queries(const Unit& unit, BlockRange blocks, Prefetch& next) const {
    const UnitFetch fetch{call_.problem, unit, next};
    fetch.queries(blocks, call_.io.q);
    for (const In* array : {&call_.io.d_o, &call_.io.o, &call_.io.rest}) fetch.outputs(blocks, *array);
  }

  const Context& context_;
  std::vector<Unit> units_;
  BiasSharing sharing_;
  BackwardCall call_;
  const BackwardKernel& kernel_;
  std::size_t scratch_bytes_;
  Scratch<std::byte> scratch_;
};

}  // namespace

template <>
void backward<Device::cpu>(const Context& context, const Problem& problem, const Backward& io) {
  check(problem, io);
  if (problem.pieces.empty()) return;
  BackwardDriver(context, problem, io).run();
}

}  // namespace fovea::tile
