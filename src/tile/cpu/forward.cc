#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "tile/check.h"
#include "tile/contract.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/units.h"

namespace fovea::tile {
namespace {

constexpr std::size_t kWaveBytes = std::size_t{48} << 20;   // packed keys and values at a time, or one head's
constexpr std::size_t kSmallUnit = std::size_t{512} << 10;  // a unit whose keys and values stay in a core's own cache
constexpr std::int32_t kPackBlocks = 4;
constexpr std::int64_t kFewBlocks = 4;  // of queries that read the same keys

// Three ways to divide the work, with the same bits as result, since every query block is computed the same way:
// - long rows: keys and values of a few heads are packed by all threads, then query blocks are handed out one by one,
//   those with the most keys first (a static division of a causal problem loses a third);
// - many small units (block-diagonal patterns, windows, short sequences): a thread packs and computes whole units, and
//   fetches the next unit's rows meanwhile;
// - few queries, many keys: a thread packs a few key blocks of a unit at a time, so that they never leave its cache.
class ForwardDriver {
 public:
  ForwardDriver(const Context& context, const ForwardCall& call)
      : context_(context),
        call_(call),
        kernel_(forward_kernel(call)),
        units_(list_units(call.problem, [&](const Plan& plan) { return cut_narrow(plan, max_keys()); })),
        scratch_bytes_(most_bytes(call.problem,
                                  [&](const Plan& plan) { return kernel_.scratch_bytes(call, plan.tile()); })),
        scratch_(context, scratch_bytes_ * static_cast<std::size_t>(context.threads())) {}

  void run() {
    std::size_t largest = 0;
    for (const Unit& unit : units_) largest = std::max(largest, unit_bytes(unit).all());
    const bool many = units_.size() >= 4 * static_cast<std::size_t>(context_.threads());
    if (largest <= kSmallUnit && many)
      run_small(largest);
    else if (is_wide())
      run_wide();
    else
      run_long();
  }

 private:
  struct Task {
    const Unit* unit;
    std::int64_t head;
    std::int32_t block;
  };

  // Keys of a small unit; an eighth is left for what is kept beside the rows.
  std::int64_t max_keys() const {
    const std::size_t size = call_.problem.dtype == DType::f64 ? sizeof(double) : sizeof(float);
    return static_cast<std::int64_t>(kSmallUnit / 8 * 7 / size) / (call_.problem.d_k + call_.problem.d_v);
  }
  UnitBytes unit_bytes(const Unit& unit) const { return kernel_.unit_bytes(call_.problem, unit); }
  Room scratch_of(int rank) const { return scratch_.part(static_cast<std::size_t>(rank), scratch_bytes_); }

  void run_long() {
    for (const Wave& wave : cut_waves(units_, kWaveBytes, [&](const Unit& unit) { return unit_bytes(unit).all(); })) {
      const UnitMemory memory(context_, std::span(units_).subspan(wave.begin, wave.end - wave.begin),
                              [&](const Unit& unit) { return unit_bytes(unit); });
      pack_wave(wave);
      attend_wave(wave);
    }
  }

  void pack_wave(const Wave& wave) const {
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i)
      for (std::int32_t block = units_[i].island.key_begin; block < units_[i].island.key_end; block += kPackBlocks)
        tasks.push_back({&units_[i], 0, block});
    parallel_for(context_, static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      const std::int32_t end = std::min(task.block + kPackBlocks, task.unit->island.key_end);
      for (std::int32_t block = task.block; block < end; ++block) kernel_.pack(call_, *task.unit, block);
    });
  }

  void attend_wave(const Wave& wave) const {
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i) add_tasks(units_[i], tasks);
    const auto count = static_cast<std::int64_t>(tasks.size());
    parallel(context_.threads(), [&](const Team& team) {
      for (std::int64_t i = team.take(); i < count; i = team.take()) {
        const Task& task = tasks[static_cast<std::size_t>(i)];
        kernel_.attend(call_, *task.unit, {task.head, task.block}, {scratch_of(team.rank()), nullptr});
      }
    });
  }

  // Head by head, since the unit's keys are in cache; inside, query blocks with many keys first.
  void add_tasks(const Unit& unit, std::vector<Task>& tasks) const {
    struct Row {
      std::int64_t keys;
      std::int32_t block;
    };
    std::vector<Row> rows;
    for (std::int32_t block = unit.island.query_begin; block < unit.island.query_end; ++block)
      rows.push_back({count_blocks(unit.plan().row(block)), block});
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.keys > b.keys; });
    const HeadRange heads = heads_of(call_.problem, unit.kv_head);
    for (std::int64_t head = heads.begin; head < heads.end; ++head)
      for (const Row& row : rows) tasks.push_back({&unit, head, row.block});
  }

  void run_small(std::size_t largest) const {
    const Scratch<std::byte> packed(context_, largest * static_cast<std::size_t>(context_.threads()));
    for_each_unit(context_, call_.problem, units_, [&](Unit unit, const Unit* following, int rank) {
      unit.room = divide(packed.part(static_cast<std::size_t>(rank), largest), unit_bytes(unit));
      run_unit(unit, following, scratch_of(rank));
    });
  }

  void run_unit(const Unit& unit, const Unit* following, Room scratch) const {
    Prefetch next;
    if (following != nullptr) fetch(*following, next);
    const HeadRange heads = heads_of(call_.problem, unit.kv_head);
    std::int64_t visits = 0;
    for (std::int32_t block = unit.island.query_begin; block < unit.island.query_end; ++block)
      visits += heads.size() * count_blocks(unit.plan().row(block));
    next.spread(2 * register_tiles(unit.plan(), visits));
    for (std::int32_t block = unit.island.key_begin; block < unit.island.key_end; ++block)
      kernel_.pack(call_, unit, block);
    for (std::int64_t head = heads.begin; head < heads.end; ++head)
      for (std::int32_t block = unit.island.query_begin; block < unit.island.query_end; ++block)
        kernel_.attend(call_, unit, {head, block}, {scratch, &next});
  }

  // Whether every unit has few queries, and every thread a unit.
  bool is_wide() const {
    const auto has_few = [&](const Unit& unit) { return query_tiles(unit) <= kFewBlocks; };
    return units_.size() >= static_cast<std::size_t>(context_.threads()) &&
           std::all_of(units_.begin(), units_.end(), has_few);
  }
  std::int64_t query_tiles(const Unit& unit) const {
    return unit.query_blocks() * heads_of(call_.problem, unit.kv_head).size();
  }

  void run_wide() const {
    std::size_t largest = 0;
    for (const Unit& unit : units_) largest = std::max(largest, unit_bytes(keys_of(unit, unit.island.key_begin)).all());
    const std::size_t each = largest + kFewBlocks * scratch_bytes_;
    const Scratch<std::byte> memory(context_, each * static_cast<std::size_t>(context_.threads()));
    const auto count = static_cast<std::int64_t>(units_.size());
    parallel(context_.threads(), [&](const Team& team) {
      const Room own = memory.part(static_cast<std::size_t>(team.rank()), each);
      for (std::int64_t i = team.take(); i < count; i = team.take())
        run_parts(units_[static_cast<std::size_t>(i)], own.first(largest), own.subspan(largest));
    });
  }

  // A few key blocks of a unit.
  static Unit keys_of(Unit unit, std::int32_t begin) {
    unit.island = {unit.island.query_begin, unit.island.query_end, begin,
                   std::min(begin + kPackBlocks, unit.island.key_end)};
    return unit;
  }

  // Every query block has a scratch of its own, where its sums stay.
  void run_parts(const Unit& unit, Room packed, Room scratch) const {
    const HeadRange heads = heads_of(call_.problem, unit.kv_head);
    std::int32_t begin = unit.island.key_begin;
    do {
      Unit part = keys_of(unit, begin);
      part.room = divide(packed, unit_bytes(part));
      for (std::int32_t block = begin; block < part.island.key_end; ++block) kernel_.pack(call_, part, block);
      Prefetch next;
      const Unit following = keys_of(unit, part.island.key_end);
      fetch_keys(following, next);
      next.spread(2 * register_tiles(unit.plan(), query_tiles(unit) * part.key_blocks()));
      const KeyPart which{begin == unit.island.key_begin, part.island.key_end == unit.island.key_end};
      std::size_t at = 0;
      for (std::int64_t head = heads.begin; head < heads.end; ++head)
        for (std::int32_t block = unit.island.query_begin; block < unit.island.query_end; ++block, at += scratch_bytes_)
          kernel_.attend(call_, part, {head, block}, {scratch.subspan(at, scratch_bytes_), &next, which});
      begin = part.island.key_end;
    } while (begin < unit.island.key_end);
  }

  void fetch_keys(const Unit& unit, Prefetch& next) const {
    const UnitFetch fetch{call_.problem, unit, next};
    fetch.keys({unit.island.key_begin, unit.island.key_end}, call_.io.k, call_.io.v);
  }

  void fetch(const Unit& unit, Prefetch& next) const {
    const UnitFetch fetch{call_.problem, unit, next};
    fetch_keys(unit, next);
    fetch.queries({unit.island.query_begin, unit.island.query_end}, call_.io.q);
  }

  const Context& context_;
  const ForwardCall& call_;
  const ForwardKernel& kernel_;
  std::vector<Unit> units_;
  std::size_t scratch_bytes_;
  Scratch<std::byte> scratch_;
};

}  // namespace

template <>
void forward<Device::cpu>(const Context& context, const Problem& problem, const Forward& io) {
  check(problem, io);
  if (problem.pieces.empty()) return;
  const ForwardCall call{problem, io, store_mode_for(problem)};
  ForwardDriver(context, call).run();
}

void forward_measured(const Context& context, const Problem& problem, const Forward& io,
                      const RowStatistics& statistics) {
  check(problem, io, statistics);
  if (problem.pieces.empty()) return;
  const ForwardCall call{problem, io, store_mode_for(problem), &statistics};
  ForwardDriver(context, call).run();
}

}  // namespace fovea::tile
