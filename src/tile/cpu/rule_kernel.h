#pragma once

#include <cstddef>
#include <cstdint>

#include "tile/cpu/kernel.h"
#include "tile/row_rule.h"

// What the driver of the row rules (rule.cc) knows of their kernels: functions for one instruction set and type.
namespace fovea::tile {

// What a thread's scratch must hold: a tile, and a row of the plan in keys.
struct RowSize {
  TileSize tile;
  std::int64_t keys;
  bool backward;
};

struct RuleForwardCall {
  const Problem& problem;
  const RowRule& rule;
  const Forward& io;
  StoreMode stores = StoreMode::cached;
};

struct RuleBackwardCall {
  const Problem& problem;
  const RowRule& rule;
  const Backward& io;
  bool bias_is_shared = false;  // several pairs add to one element of d_bias, which starts at zero
};

struct RuleKernel {
  // Keys and values of a unit, converted, and the sums of dk and dv of one that sums its keys.
  UnitBytes (*unit_bytes)(const Problem& problem, const Unit& unit);
  std::size_t (*scratch_bytes)(const Problem& problem, const RowSize& size);
  // Copies and converts one key block of the plan.
  void (*pack)(const Problem& problem, const In& k, const In& v, const Unit& unit, std::int32_t key_block);
  // Clears the sums of one key block.
  void (*open)(const Problem& problem, const Unit& unit, std::int32_t key_block);
  // Computes one query block.
  void (*attend)(const RuleForwardCall& call, const Unit& unit, HeadBlock queries, Room scratch);
  // Writes dq of one query block and adds to the sums of its keys, in turns: blocks come head by head, the last first.
  void (*vjp)(const RuleBackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch);
  // Writes dk and dv of one key block from its sums.
  void (*finish)(const RuleBackwardCall& call, const Unit& unit, std::int32_t key_block);
};
const RuleKernel& rule_kernel(const Problem& problem);

}  // namespace fovea::tile
