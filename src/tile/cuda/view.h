#pragma once

#include <cstdint>

#include "policy/dropout.h"
#include "tile/contract.h"
#include "tile/row_rule.h"

// What the kernels see of a call: plain data, the same on host and device.
namespace fovea::tile::cuda {

// The rows of the array that a kernel's block works on are its own; the others stream by. Going by rows of the plan
// the own ones are queries, going by columns they are keys.
struct ListView {
  static constexpr std::int32_t kNone = -2;  // beside Plan::kWhole
  // A run of streamed blocks against one or two own blocks.
  struct Entry {
    std::int32_t block, count;
    std::int32_t mask[2];  // for each own block: Plan::kWhole, kNone or an index
  };

  const std::int32_t* start = nullptr;  // entries of own tile t: [start[t], start[t + 1])
  const Entry* entries = nullptr;
  const std::uint64_t* masks = nullptr;  // [mask][own row][word]: bit b of the words is streamed row b
  std::int32_t own = 0, streamed = 0;    // rows of a block
  std::int32_t words = 0;                // of a mask's row
};

struct PieceView {
  std::int64_t batch, q0, k0, q_step, k_step, nq, nk, gap, bias_at, d_bias_at;
  std::int64_t first_row;  // of its queries among those of all pieces
  std::int32_t kv_head;
  std::int32_t plan;             // which one of the call
  ListView rows[2], columns[2];  // own tiles of one block and of two

  FOVEA_HD std::int64_t query_row(std::int64_t i) const { return q0 + i * q_step; }
  FOVEA_HD std::int64_t key_row(std::int64_t j) const { return k0 + j * k_step; }
  FOVEA_HD std::int64_t distance(std::int64_t i, std::int64_t j) const {
    return gap + (nk - 1 - j) * k_step - (nq - 1 - i) * q_step;
  }
};

// An own tile's list, or a part of it: `blocks` streamed blocks from entry `begin` on, without its first `skip` ones.
// Whoever has a slot leaves sums there instead of results. Flags [flag, flag + flags) are the item's or, of a whole
// list, those of its parts.
struct Item {
  std::int32_t piece, tile, begin, skip, blocks, slot, flag, flags;
};
// The parts of a list, in slots [slot, slot + parts).
struct Merge {
  std::int32_t piece, tile, slot, parts;
};

// The row statistic as backward wants it.
template <class R>
struct RowStatistic {
  R reopened, delta;
};

// What a row rule knows of a row after its search; see rule_terms.cuh for who uses what.
template <class R>
struct RowTerms {
  R top, factor, bound, low, mean, to_top, to_bottom;
  std::int32_t first, second;
};

// The problem, without its types. Scores are in units of 1 / unit.
struct Call {
  const PieceView* pieces = nullptr;
  const Item* items = nullptr;
  std::int32_t heads = 0, kv_heads = 0, d_k = 0, d_v = 0;
  std::int64_t rows = 0;  // queries of all pieces
  DType dtype = DType::f32, output_type = DType::f32;
  DType gradient_type = DType::f32;  // of d_o as kernels read it
  Weight weight = Weight::softmax;
  bool self_adjust = false, has_dropout = false;
  bool is_shaped = false;  // softmax with a positive scale, a bias and dropout at most
  double offset = 0.0, scale = 1.0, unit = 1.0;
  float score_scale = 1.0f;  // scale times unit
  int degree = 2;
  const double* alibi = nullptr;
  BiasArray<const void*> bias;
  PairDropout dropout;
  const std::uint64_t* drop_shift = nullptr;                    // on the card: what a recorded step adds to its stream
  std::int64_t first_head = 0, first_query = 0, first_key = 0;  // of dropout
  double drop_scale = 1.0;
  RowRule rule;
  In q, k, v, o, rest, lse, d_o, d_lse;
  Out out, out_rest, out_lse;  // forward
  Out dq, dk, dv;
  BiasArray<void*> d_bias;
  bool adds_bias = false;            // to what is there; see mma_bias.cuh
  const void* statistics = nullptr;  // RowStatistic or RowTerms: [heads, rows]
  std::uint32_t* flags = nullptr;    // [flags, heads] of a tensor-core kernel: is this item to be done again?
  float* partial = nullptr;          // sums of parts: [slots, heads, own rows, columns]; see PartialShape

  // In 32 bits: a division of 64 takes a hundred instructions on the card.
  FOVEA_HD std::int32_t kv_head_of(std::int32_t head) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(head) * static_cast<std::uint32_t>(kv_heads) /
                                     static_cast<std::uint32_t>(heads));
  }
  FOVEA_HD std::int32_t first_head_of(std::int32_t kv) const { return kv * (heads / kv_heads); }
};

// The same call without its first pieces.
inline Call from_piece(Call call, std::int64_t first) {
  call.pieces += first;
  return call;
}

// Is every row of halves, or of f32, made of whole, aligned 16-byte pieces, if its width is?
template <class Pointer>
bool is_aligned(const Array<Pointer>& a, DType type = DType::bf16) {
  const std::int64_t piece = type == DType::f32 ? 4 : 8;
  return reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0 && a.batch % piece == 0 && a.row % piece == 0 &&
         a.head % piece == 0;
}

// What a part leaves of an own row: `width` sums of the first result and of the second, then top and sum of its
// weights.
struct PartialShape {
  std::int32_t own, width1, width2;
  FOVEA_HD std::int64_t columns() const { return width1 + width2 + 2; }
  FOVEA_HD std::int64_t offset(std::int64_t slot, std::int64_t heads, std::int64_t head) const {
    return (slot * heads + head) * own * columns();
  }
};

// Offset of the first element of (batch, row, head).
template <class Pointer>
FOVEA_HD std::int64_t offset_of(const Array<Pointer>& array, std::int64_t batch, std::int64_t row, std::int64_t head) {
  return batch * array.batch + row * array.row + head * array.head;
}

}  // namespace fovea::tile::cuda
