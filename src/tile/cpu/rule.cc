#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "tile/check.h"
#include "tile/cpu/bias_gradient.h"
#include "tile/cpu/rule_kernel.h"
#include "tile/cpu/units.h"
#include "tile/row_rule.h"

namespace fovea::tile {
namespace {

constexpr std::size_t kWaveBytes = std::size_t{48} << 20;  // packed keys, values and sums at a time, or one head's

// Keys of the plan's longest row, in whole blocks.
std::int64_t longest_row(const Plan& plan) {
  std::int64_t longest = 0;
  for (std::int64_t block = 0; block < plan.query_blocks(); ++block)
    longest = std::max(longest, count_blocks(plan.row(block)) * plan.tile_k);
  return longest;
}

// Waves of units: their keys are packed by all threads, then query blocks are handed out.
class RuleDriver {
 public:
  RuleDriver(const Context& context, const Problem& problem, bool backward)
      : context_(context),
        problem_(problem),
        kernel_(rule_kernel(problem)),
        units_(list_units(problem, [](const Plan& plan) { return plan.islands; })),
        scratch_bytes_(most_bytes(problem,
                                  [&](const Plan& plan) {
                                    return kernel_.scratch_bytes(problem, {plan.tile(), longest_row(plan), backward});
                                  })),
        scratch_(context, scratch_bytes_ * static_cast<std::size_t>(context.threads())) {
    for (Unit& unit : units_) unit.sums_keys = backward;
  }

  void forward(const RuleForwardCall& call) {
    for (const Wave& wave : cut_waves(units_, kWaveBytes, [&](const Unit& unit) { return unit_bytes(unit).all(); })) {
      const UnitMemory memory = memory_of(wave);
      pack(wave, call.io.k, call.io.v);
      for_each_query(wave, context_.threads(), [&](const Unit& unit, HeadBlock queries, Room scratch) {
        kernel_.attend(call, unit, queries, scratch);
      });
    }
  }

  void backward(const RuleBackwardCall& call, const BiasSharing& sharing) {
    clear_bias_gradient(context_, problem_, call.io.d_bias);
    const int threads = sharing.is_ordered_by_turns() ? context_.threads() : 1;
    const std::size_t budget = sharing.units ? 0 : kWaveBytes;  // 0: one unit after the other
    for (const Wave& wave : cut_waves(units_, budget, [&](const Unit& unit) { return unit_bytes(unit).all(); })) {
      const UnitMemory memory = memory_of(wave);
      pack(wave, call.io.k, call.io.v);
      for_each_key(wave, [&](const Unit& unit, std::int32_t key_block) { kernel_.open(problem_, unit, key_block); });
      for_each_query(wave, threads, [&](const Unit& unit, HeadBlock queries, Room scratch) {
        kernel_.vjp(call, unit, queries, scratch);
      });
      for_each_key(wave, [&](const Unit& unit, std::int32_t key_block) { kernel_.finish(call, unit, key_block); });
    }
  }

 private:
  UnitBytes unit_bytes(const Unit& unit) const { return kernel_.unit_bytes(problem_, unit); }

  UnitMemory memory_of(const Wave& wave) {
    return UnitMemory(context_, std::span(units_).subspan(wave.begin, wave.end - wave.begin),
                      [&](const Unit& unit) { return unit_bytes(unit); });
  }
  void pack(const Wave& wave, const In& k, const In& v) const {
    for_each_key(wave, [&](const Unit& unit, std::int32_t block) { kernel_.pack(problem_, k, v, unit, block); });
  }

  template <class Body>
  void for_each_key(const Wave& wave, Body&& body) const {
    struct Task {
      const Unit* unit;
      std::int32_t block;
    };
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i)
      for (std::int32_t block = units_[i].island.key_begin; block < units_[i].island.key_end; ++block)
        tasks.push_back({&units_[i], block});
    parallel_for(context_, static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      body(*task.unit, task.block);
    });
  }

  // Unit by unit, head by head, the last query block first: in causal problems it has the most keys.
  template <class Body>
  void for_each_query(const Wave& wave, int threads, Body&& body) const {
    struct Task {
      const Unit* unit;
      HeadBlock queries;
    };
    std::vector<Task> tasks;
    for (std::size_t i = wave.begin; i < wave.end; ++i) {
      const HeadRange heads = heads_of(problem_, units_[i].kv_head);
      for (std::int64_t head = heads.begin; head < heads.end; ++head)
        for (std::int32_t block = units_[i].island.query_end; block-- > units_[i].island.query_begin;)
          tasks.push_back({&units_[i], {head, block}});
    }
    const auto count = static_cast<std::int64_t>(tasks.size());
    parallel(threads, [&](const Team& team) {
      const Room scratch = scratch_.part(static_cast<std::size_t>(team.rank()), scratch_bytes_);
      for (std::int64_t i = team.take(); i < count; i = team.take())
        body(*tasks[static_cast<std::size_t>(i)].unit, tasks[static_cast<std::size_t>(i)].queries, scratch);
    });
  }

  const Context& context_;
  const Problem& problem_;
  const RuleKernel& kernel_;
  std::vector<Unit> units_;
  std::size_t scratch_bytes_;
  Scratch<std::byte> scratch_;
};

}  // namespace

template <>
void rule_forward<Device::cpu>(const Context& context, const Problem& problem, const RowRule& rule, const Forward& io) {
  check(problem, rule, io);
  if (problem.pieces.empty()) return;
  RuleDriver(context, problem, false).forward({problem, rule, io, store_mode_for(problem)});
}

template <>
void rule_backward<Device::cpu>(const Context& context, const Problem& problem, const RowRule& rule,
                                const Backward& io) {
  check(problem, rule, io);
  if (problem.pieces.empty()) return;
  const BiasSharing sharing = sharing_of(problem, io.d_bias);
  RuleDriver(context, problem, true).backward({problem, rule, io, sharing.any()}, sharing);
}

}  // namespace fovea::tile
