#pragma once

#include <algorithm>
#include <cstdint>

#include "core/parallel.h"
#include "core/wide.h"
#include "fovea/tensor.h"
#include "fovea/zones.h"

// How the loops of the operations are divided. By shape alone, never by the number of threads: that is what makes every
// sum over rows the same bits on any machine.
namespace fovea {

inline constexpr std::int64_t kTaskElements = 1 << 14;  // 64 KB of floats: a task outweighs its 0.5 us of scheduling

// body(begin, end) on pieces of [0, count).
template <class Body>
void for_elements(const Context& context, std::int64_t count, Body&& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  parallel_ranges(context, count, kTaskElements, body);
}

// body(begin, end) on pieces of [0, rows), rows of `width` elements.
template <class Body>
void for_rows(const Context& context, std::int64_t rows, std::int64_t width, Body&& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  parallel_ranges(context, rows, std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, width)), body);
}

// Fixed blocks of rows, each of which sums into its own partial result.
struct RowBlocks {
  static constexpr std::int64_t kMost = 64;

  RowBlocks(std::int64_t rows, std::int64_t width) : rows(rows) {
    const std::int64_t wanted = std::clamp<std::int64_t>(rows * width / kTaskElements, 1, kMost);
    size = std::max<std::int64_t>(1, (rows + wanted - 1) / wanted);
    count = (rows + size - 1) / size;
  }

  std::int64_t rows, size, count;
};

// body(block, begin, end) on every block.
template <class Body>
void for_blocks(const Context& context, const RowBlocks& blocks, Body&& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  parallel_for(context, blocks.count, [&](std::int64_t block) {
    body(block, block * blocks.size, std::min(blocks.rows, (block + 1) * blocks.size));
  });
}

// (..., width) seen as (rows, width); a dense copy where the tensor is not.
struct Rows {
  Rows(const Context& context, const Tensor& t)
      : tensor(t.contiguous(context)),
        width(t.rank() == 0 ? 1 : t.dim(-1)),
        count(width == 0 ? 0 : t.numel() / width) {}

  Tensor tensor;
  std::int64_t width, count;
};

// Itself where the last axis is dense, else a dense copy.
inline Tensor dense_rows(const Context& context, const Tensor& t) {
  return t.stride(-1) == 1 || t.dim(-1) == 1 ? t : t.contiguous(context);
}

}  // namespace fovea
