#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/scratch.h"
#include "simd/prefetch.h"
#include "tile/contract.h"
#include "tile/row_statistics.h"

// What the drivers (forward.cc, backward.cc) know of the kernels: functions for one instruction set and kind of
// numbers. The kernels know nothing of threads; the drivers know nothing of vectors.
namespace fovea::tile {

// What a kernel keeps of a unit, in its own layout.
struct UnitRoom {
  Room keys, queries, sums, notes;  // forward has keys and notes only
};

// The rows of one island of a piece's plan, for one kv head: what shares packed keys and values.
struct Unit {
  const Piece* piece = nullptr;
  Plan::Island island{};
  std::int64_t kv_head = 0;
  // Blocks that are packed at the same time: all of them, or a ring (block i in slot i % slots).
  std::int32_t query_slots = 0, key_slots = 0;
  bool sums_keys = false;  // backward: dk and dv are summed row by row of the plan
  UnitRoom room = {};      // sizes from unit_bytes

  const Plan& plan() const { return *piece->plan; }
  // Local rows of the piece.
  std::int64_t query_begin() const { return std::int64_t{island.query_begin} * plan().tile_q; }
  std::int64_t query_end() const { return least(std::int64_t{island.query_end} * plan().tile_q, piece->nq); }
  std::int64_t key_begin() const { return std::int64_t{island.key_begin} * plan().tile_k; }
  std::int64_t key_end() const { return least(std::int64_t{island.key_end} * plan().tile_k, piece->nk); }
  std::int64_t keys() const { return key_end() - key_begin(); }
  std::int64_t queries() const { return query_end() - query_begin(); }
  std::int32_t query_blocks() const { return island.query_end - island.query_begin; }
  std::int32_t key_blocks() const { return island.key_end - island.key_begin; }
  std::int64_t query_slot(std::int32_t block) const { return (block - island.query_begin) % query_slots; }
  std::int64_t key_slot(std::int32_t block) const { return (block - island.key_begin) % key_slots; }

 private:
  static std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
};

// To be measured only.
inline Unit without_room(Unit unit) {
  unit.room = {};
  return unit;
}

// Blocks of their own, so that the large ones are whole multiples of a row copy (one sum of everything would be rounded
// up by a fifth at n 65536) and backward packs keys where forward had them.
struct UnitBytes {
  std::size_t keys = 0, queries = 0, sums = 0, notes = 0;

  std::size_t all() const { return keys + queries + sums + notes; }
  UnitBytes& operator+=(const UnitBytes& more) {
    keys += more.keys;
    queries += more.queries;
    sums += more.sums;
    notes += more.notes;
    return *this;
  }
};

struct BlockRange {
  std::int32_t begin, end;
};

// One query block of one query head.
struct HeadBlock {
  std::int64_t head;
  std::int32_t block;
};

// What a problem's products multiply: f32 (half types are converted), f64, or bf16 as it is where the machine can.
enum class Numbers : std::uint8_t { f32, f64, bf16_pairs };
Numbers numbers_of(const Problem& problem);

// Do results stay in cache, or leave it at once? Large ones would be read from memory only to be overwritten.
enum class StoreMode : std::uint8_t { cached, streamed };

struct ForwardCall {
  const Problem& problem;
  const Forward& io;
  StoreMode stores = StoreMode::cached;
  const RowStatistics* statistics = nullptr;  // null: nobody asks
};

// Which part of a query block's keys a unit has: sums are opened at the first and written after the last.
struct KeyPart {
  bool is_first = true, is_last = true;
};

struct AttendRoom {
  Room scratch;
  Prefetch* next;
  KeyPart part = {};
};

struct ForwardKernel {
  // Bytes of a unit's packed keys and values, and of a thread's scratch for tiles of this size. No size bounds another:
  // a thread needs the most that any tile in use does.
  UnitBytes (*unit_bytes)(const Problem& problem, const Unit& unit);
  std::size_t (*scratch_bytes)(const ForwardCall& call, TileSize tile);
  // Copies and converts one key block of the plan.
  void (*pack)(const ForwardCall& call, const Unit& unit, std::int32_t key_block);
  // Computes one query block over the unit's keys; `next` is fetched meanwhile. The scratch keeps the sums from one
  // part of the keys to the next.
  void (*attend)(const ForwardCall& call, const Unit& unit, HeadBlock queries, const AttendRoom& room);
};
const ForwardKernel& forward_kernel(const ForwardCall& call);

struct BackwardCall {
  const Problem& problem;
  const Backward& io;
  bool in_turns = false;        // several threads may work on one unit; see turns.h
  bool bias_is_shared = false;  // several pairs add to one element of d_bias, which starts at zero
  StoreMode stores = StoreMode::cached;
};

// Key blocks whose gradients are made at a time: as many as a core's cache holds beside the tiles. Every one more saves
// a pass over the packed queries and the sums of dq, which at d 128 and n 8192 come from memory.
inline std::int32_t vjp_blocks(const Problem& problem, std::int64_t tile_k) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 10;
  const std::int64_t size = problem.dtype == DType::f64 ? sizeof(double) : sizeof(float);
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, kBytes / (tile_k * (problem.d_k + problem.d_v) * size)));
}

// What the shares of a unit's queries add up to: each continues the total of those before it.
struct KeyShare {
  Room total;
  bool is_first, is_last;
};

struct BackwardKernel {
  UnitBytes (*unit_bytes)(const BackwardCall& call, const Unit& unit);
  std::size_t (*scratch_bytes)(const Problem& problem, TileSize tile);
  // Copy and convert one key block, or one query block, of the plan.
  void (*pack_keys)(const BackwardCall& call, const Unit& unit, std::int32_t key_block);
  void (*pack_queries)(const BackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch);
  // Up to vjp_blocks key blocks: writes their dk and dv (and d_bias), adds to the sum of dq.
  void (*vjp)(const BackwardCall& call, const Unit& unit, BlockRange keys, Room scratch, Prefetch* next);
  // One query block of a unit that sums its keys: adds to dq, dk and dv.
  void (*vjp_row)(const BackwardCall& call, const Unit& unit, HeadBlock queries, Room scratch, Prefetch* next);
  // Writes dq of one query block from its sum.
  void (*finish)(const BackwardCall& call, const Unit& unit, HeadBlock queries);
  // Writes dk and dv of such a unit, or their total so far.
  void (*finish_keys)(const BackwardCall& call, const Unit& unit, const KeyShare& share);
};
const BackwardKernel& backward_kernel(const Problem& problem);

// First and past-last query head that reads a kv head.
struct HeadRange {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};
inline HeadRange heads_of(const Problem& problem, std::int64_t kv_head) {
  const auto first = [&](std::int64_t kv) { return (kv * problem.heads + problem.kv_heads - 1) / problem.kv_heads; };
  return {first(kv_head), first(kv_head + 1)};
}

// Address of the first element of (batch, row, head) in an array of `dtype`.
template <class Pointer>
Pointer element(const Array<Pointer>& array, DType dtype, std::int64_t batch, std::int64_t row, std::int64_t head) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  const std::int64_t offset = batch * array.batch + row * array.row + head * array.head;
  return static_cast<Byte*>(array.data) + offset * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace fovea::tile
