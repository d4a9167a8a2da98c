#pragma once

#include <cstdint>

#include "fovea/tensor.h"

// Sorting and running sums on the card: CUB's, stable, the same on every run. At most 2^31 elements.
namespace fovea::device {

// i32, of the shape of keys (..., length), dense i32, i64, f32 or f64: the places of each row in the order of their
// keys. Equal ones keep their order; a NaN is larger than anything.
Tensor sorted_order(const Context& context, const Tensor& keys, bool descending = false);

// to_i = the sum of from_j over j < i; i64 (count).
struct RunningSum {
  Tensor from, to;
};
void exclusive_sums(const Context& context, const RunningSum& io);

// keys (count), i32: `order` lists the positions of the keys 0, 1, ..., targets - 1 one after the other, those of a key
// in order; key t has places [begin_t, begin_(t+1)) of it. Positions of other keys stand behind the last.
struct Groups {
  Tensor order;   // i32 (count)
  Tensor target;  // i32 (count): the key at each place of `order`
  Tensor begin;   // i32 (targets + 1)
  std::int64_t count = 0, targets = 0;
};
Groups groups_of(const Context& context, const Tensor& keys, std::int64_t targets);

}  // namespace fovea::device
