#include "tile/score_rows.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/parallel.h"
#include "tile/check.h"
#include "tile/cpu/score_rows_kernel.h"
#include "tile/cpu/units.h"

namespace fovea::tile {
namespace {

constexpr std::size_t kScoreWave = std::size_t{48} << 20;  // packed keys at a time, or one head's

std::int64_t keys_of_row(const Plan& plan, std::int64_t block) { return count_blocks(plan.row(block)) * plan.tile_k; }

class ScoreRowsDriver {
 public:
  ScoreRowsDriver(const Context& context, const ScoreRowsCall& call, const WantedRows& wanted)
      : context_(context), call_(call), wanted_(wanted), kernel_(score_rows_kernel(call)) {
    for (const Unit& unit : list_units(call.problem, [](const Plan& plan) { return plan.islands; }))
      if (wants(unit)) units_.push_back(unit);
  }

  void run() {
    if (units_.empty()) return;
    const std::size_t each = most_bytes(call_.problem, [&](const Plan& plan) {
      std::int64_t longest = 0;
      for (std::int64_t block = 0; block < plan.query_blocks(); ++block)
        longest = std::max(longest, keys_of_row(plan, block));
      return kernel_.scratch_bytes(call_.problem, {plan.tile(), longest, false});
    });
    const Scratch<std::byte> scratch(context_, each * static_cast<std::size_t>(context_.threads()));
    const auto bytes_of = [&](const Unit& unit) { return kernel_.unit_bytes(call_.problem, unit); };
    for (const Wave& wave : cut_waves(units_, kScoreWave, [&](const Unit& unit) { return bytes_of(unit).all(); })) {
      const UnitMemory memory(context_, std::span(units_).subspan(wave.begin, wave.end - wave.begin), bytes_of);
      pack(wave);
      visit(wave, scratch, each);
    }
  }

 private:
  struct Task {
    const Unit* unit;
    HeadBlock queries;
  };

  bool wants_rows(const Unit& unit, std::int64_t begin, std::int64_t end) const {
    return begin < end && unit.piece->query_row(begin) < wanted_.end && unit.piece->query_row(end - 1) >= wanted_.begin;
  }
  bool wants(const Unit& unit) const {
    const HeadRange heads = heads_of(call_.problem, unit.kv_head);
    const bool head = wanted_.head < 0 || (heads.begin <= wanted_.head && wanted_.head < heads.end);
    return head && wants_rows(unit, unit.query_begin(), unit.query_end());
  }

  void pack(const Wave& wave) const {
    std::vector<std::pair<const Unit*, std::int32_t>> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i)
      for (std::int32_t block = units_[i].island.key_begin; block < units_[i].island.key_end; ++block)
        tasks.emplace_back(&units_[i], block);
    parallel_for(context_, std::ssize(tasks), [&](std::int64_t i) {
      const auto& [unit, block] = tasks[static_cast<std::size_t>(i)];
      kernel_.pack(call_, *unit, block);
    });
  }

  std::int64_t share_of(const Task& task) const {
    const std::int64_t row = std::int64_t{task.queries.block} * task.unit->plan().tile_q;
    return task.unit->piece->query_row(row) / wanted_.rows_per_share;
  }

  // What adds to the same sums, in order.
  std::vector<std::vector<Task>> shares(const Wave& wave) const {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Task>> shares;
    for (std::size_t i = wave.begin; i < wave.end; ++i) {
      const HeadRange heads = heads_of(call_.problem, units_[i].kv_head);
      for (std::int64_t head = heads.begin; head < heads.end; ++head) {
        if (wanted_.head >= 0 && head != wanted_.head) continue;
        for (std::int32_t block = units_[i].island.query_begin; block < units_[i].island.query_end; ++block) {
          const std::int64_t begin = std::int64_t{block} * units_[i].plan().tile_q;
          const Task task{&units_[i], {head, block}};
          if (wants_rows(units_[i], begin, std::min(begin + units_[i].plan().tile_q, units_[i].piece->nq)))
            shares[{-share_of(task), head}].push_back(task);  // the last first: causal ones have the most keys
        }
      }
    }
    std::vector<std::vector<Task>> lists;
    for (auto& [_, tasks] : shares) lists.push_back(std::move(tasks));
    return lists;
  }

  void visit(const Wave& wave, const Scratch<std::byte>& scratch, std::size_t each) const {
    const std::vector<std::vector<Task>> lists = shares(wave);
    const auto count = std::ssize(lists);
    parallel(static_cast<int>(std::clamp<std::int64_t>(count, 1, context_.threads())), [&](const Team& team) {
      std::vector<KeyRun> runs;
      const Room room = scratch.part(static_cast<std::size_t>(team.rank()), each);
      for (std::int64_t i = team.take(); i < count; i = team.take())
        for (const Task& task : lists[static_cast<std::size_t>(i)])
          kernel_.visit(call_, *task.unit, task.queries, {room, runs, share_of(task)});
    });
  }

  const Context& context_;
  const ScoreRowsCall& call_;
  const WantedRows& wanted_;
  const ScoreRowsKernel& kernel_;
  std::vector<Unit> units_;
};

// Values are not read, and weights not dropped.
Problem without_values(const Problem& problem) {
  Problem narrow = problem;
  narrow.d_v = 1;
  narrow.dropout = {};
  check(narrow);
  return narrow;
}

}  // namespace

void visit_score_rows(const Context& context, const Problem& problem, const RowRule* rule, const In& q, const In& k,
                      const WantedRows& wanted, RowVisitor& visitor) {
  const Problem narrow = without_values(problem);
  if (!narrow.pieces.empty()) ScoreRowsDriver(context, {narrow, rule, q, k, &visitor, nullptr}, wanted).run();
}

void visit_weight_tiles(const Context& context, const Problem& problem, const WeightTilesArrays& in,
                        const WantedRows& wanted, TileVisitor& visitor) {
  const Problem narrow = without_values(problem);
  if (narrow.weight != Weight::softmax)
    fail(ErrorCode::unsupported, "tiles of weights other than softmax", "tiled attention");
  if (!narrow.pieces.empty())
    ScoreRowsDriver(context, {narrow, nullptr, in.q, in.k, nullptr, &visitor, in.lse}, wanted).run();
}

}  // namespace fovea::tile
