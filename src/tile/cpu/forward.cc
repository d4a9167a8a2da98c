#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "tile/check.h"
#include "tile/contract.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/scratch.h"
#include "tile/cpu/units.h"

namespace fovea::tile {
namespace {

constexpr std::size_t kWaveBytes = std::size_t{48} << 20;   // packed keys and values at a time, or one head's
constexpr std::size_t kSmallUnit = std::size_t{192} << 10;  // a unit whose keys and values stay in a core's own cache
constexpr std::int32_t kPackBlocks = 4;

// Two ways to divide the work, with the same bits as result, since every query block is computed the same way:
// - long rows: keys and values of a few heads are packed by all threads, then query blocks are handed out one by one,
//   those with the most keys first (a static division of a causal problem loses a third);
// - many small units (block-diagonal patterns, short sequences): a thread packs and computes whole units, all heads of
// the
//   same rows one after the other, and fetches the next unit's rows meanwhile.
class ForwardDriver {
 public:
  ForwardDriver(const Context& context, const ForwardCall& call)
      : context_(context), call_(call), kernel_(forward_kernel(call.problem)), units_(list_units(call.problem)) {}

  void run() {
    if (units_.empty()) return;
    const std::size_t bytes = kernel_.scratch_bytes(call_.problem, largest_tile(call_.problem));
    const auto threads = static_cast<std::size_t>(context_.threads());
    scratch_bytes_ = bytes;
    const Scratch scratch(*context_.allocator(), bytes * threads);
    scratch_ = scratch.data();
    std::size_t largest = 0;
    for (const Unit& unit : units_) largest = std::max(largest, unit_bytes(unit));
    if (largest <= kSmallUnit && units_.size() >= 4 * threads)
      run_small(largest);
    else
      run_long();
  }

 private:
  struct Task {
    const Unit* unit;
    std::int64_t head;
    std::int32_t query_block;
  };

  std::size_t unit_bytes(const Unit& unit) const { return kernel_.unit_bytes(call_.problem, unit); }
  std::byte* scratch_of(int rank) const { return scratch_ + static_cast<std::size_t>(rank) * scratch_bytes_; }

  void run_long() {
    for (const Wave& wave : cut_waves(units_, kWaveBytes, [&](const Unit& unit) { return unit_bytes(unit); })) {
      const Scratch packed(*context_.allocator(), wave.bytes);
      std::byte* place = packed.data();
      for (std::size_t i = wave.begin; i < wave.end; ++i) {
        units_[i].packed = place;
        place += unit_bytes(units_[i]);
      }
      pack_wave(wave);
      attend_wave(wave);
    }
  }

  void pack_wave(const Wave& wave) const {
    std::vector<Task> tasks;  // query_block stands for the first key block here
    for (std::size_t i = wave.begin; i < wave.end; ++i)
      for (std::int32_t block = units_[i].island.key_begin; block < units_[i].island.key_end; block += kPackBlocks)
        tasks.push_back({&units_[i], 0, block});
    parallel_for(context_, static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      const std::int32_t end = std::min(task.query_block + kPackBlocks, task.unit->island.key_end);
      for (std::int32_t block = task.query_block; block < end; ++block) kernel_.pack(call_, *task.unit, block);
    });
  }

  void attend_wave(const Wave& wave) const {
    const std::vector<Task> tasks = order_tasks(wave);
    const auto count = static_cast<std::int64_t>(tasks.size());
    parallel(context_.threads(), [&](const Team& team) {
      for (std::int64_t i = team.take(); i < count; i = team.take()) {
        const Task& task = tasks[static_cast<std::size_t>(i)];
        kernel_.attend(call_, *task.unit, task.head, task.query_block, scratch_of(team.rank()), nullptr);
      }
    });
  }

  // Unit by unit, since its keys are in cache; inside, query blocks with many keys first.
  std::vector<Task> order_tasks(const Wave& wave) const {
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i) {
      const Unit& unit = units_[i];
      const auto first = static_cast<std::ptrdiff_t>(tasks.size());
      const HeadRange heads = heads_of(call_.problem, unit.kv_head);
      for (std::int64_t head = heads.begin; head < heads.end; ++head)
        for (std::int32_t block = unit.island.query_begin; block < unit.island.query_end; ++block)
          tasks.push_back({&unit, head, block});
      const auto keys = [&](const Task& task) {
        std::int64_t sum = 0;
        for (const Plan::Entry& entry : unit.plan().row(task.query_block)) sum += entry.count;
        return sum;
      };
      std::stable_sort(tasks.begin() + first, tasks.end(),
                       [&](const Task& a, const Task& b) { return keys(a) > keys(b); });
    }
    return tasks;
  }

  // A ticket is a run of units with the same rows: all kv heads of an island.
  void run_small(std::size_t largest) const {
    const Scratch packed(*context_.allocator(), largest * static_cast<std::size_t>(context_.threads()));
    const std::int64_t heads = call_.problem.kv_heads, count = static_cast<std::int64_t>(units_.size()) / heads;
    parallel(context_.threads(), [&](const Team& team) {
      std::byte* place = packed.data() + static_cast<std::size_t>(team.rank()) * largest;
      for (std::int64_t ticket = team.take(), next; ticket < count; ticket = next) {
        next = team.take();
        for (std::int64_t head = 0; head < heads; ++head) {
          const std::int64_t following = head + 1 < heads ? ticket * heads + head + 1 : next * heads;
          run_unit(ticket * heads + head, following, place, team.rank());
        }
      }
    });
  }

  void run_unit(std::int64_t index, std::int64_t following, std::byte* place, int rank) const {
    Unit unit = units_[static_cast<std::size_t>(index)];
    unit.packed = place;
    Prefetch next;
    if (following < static_cast<std::int64_t>(units_.size())) fetch(units_[static_cast<std::size_t>(following)], next);
    for (std::int32_t block = unit.island.key_begin; block < unit.island.key_end; ++block)
      kernel_.pack(call_, unit, block);
    next.spread(2 * register_tiles(call_.problem, unit));
    const HeadRange heads = heads_of(call_.problem, unit.kv_head);
    for (std::int64_t head = heads.begin; head < heads.end; ++head)
      for (std::int32_t block = unit.island.query_begin; block < unit.island.query_end; ++block)
        kernel_.attend(call_, unit, head, block, scratch_of(rank), &next);
  }

  void fetch(const Unit& unit, Prefetch& next) const {
    fetch_rows(call_.problem, unit, call_.io.k, RowsOf::keys, next);
    fetch_rows(call_.problem, unit, call_.io.v, RowsOf::values, next);
    fetch_rows(call_.problem, unit, call_.io.q, RowsOf::queries, next);
  }

  const Context& context_;
  const ForwardCall& call_;
  const ForwardKernel& kernel_;
  std::vector<Unit> units_;
  std::size_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
};

}  // namespace

void forward(const Context& context, const Problem& problem, const Forward& io) {
  check(problem, io);
  const ForwardCall call{problem, io};
  ForwardDriver(context, call).run();
}

}  // namespace fovea::tile
