#pragma once

#include "ops/cuda/split.cuh"
#include "tensor/cuda/loops.cuh"

// Loops over the columns of rows, eight neighbours a thread where the rows allow it, else one.
namespace fovea::device {

// Whether the rows of a tensor, numbered by its first `row_axes` axes, begin where eight neighbours can be loaded.
inline bool has_packs(const Tensor& t, int row_axes) {
  if (!t.defined()) return true;
  bool fits = reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0;
  for (int axis = 0; axis < row_axes; ++axis) fits = fits && (t.dim(axis) <= 1 || t.stride(axis) % kPack == 0);
  return fits;
}

template <class R, int kCount>
__device__ inline void load(const Elements<R>& from, std::int64_t i, R (&to)[kCount]) {
  static_assert(kCount == 1 || kCount == kPack);
  if constexpr (kCount == kPack)
    load_pack(from, i, to);
  else
    to[0] = from[i];
}
template <class R, int kCount>
__device__ inline void store(const Elements<R>& to, std::int64_t i, const R (&from)[kCount]) {
  static_assert(kCount == 1 || kCount == kPack);
  if constexpr (kCount == kPack)
    store_pack(to, i, from);
  else
    to.put(i, from[0]);
}

template <int kCount>
struct Neighbours {
  static constexpr int count = kCount;
};

// f(Neighbours<k>, row, column) for the columns [column, column + k) of every row.
template <class F>
void each_pack(const Context& context, const ColumnShape& shape, bool packs, const F& f) {
  if (shape.width <= 0) return;
  const std::int64_t of_row = packs && shape.width % kPack == 0 ? shape.width / kPack : shape.width;
  if (of_row < shape.width)
    each(context, shape.rows * of_row, [=] __device__(std::int64_t i) {
      const Split at = split(i, of_row);
      f(Neighbours<kPack>(), at.whole, at.rest * kPack);
    });
  else
    each(context, shape.rows * of_row, [=] __device__(std::int64_t i) {
      const Split at = split(i, of_row);
      f(Neighbours<1>(), at.whole, at.rest);
    });
}

// A tensor (b, n, heads, d) whose last axis is dense.
template <class R>
struct HeadRows {
  explicit HeadRows(const Tensor& t)
      : of(elements<R>(t)), n(t.dim(1)), item(t.stride(0)), row(t.stride(1)), head(t.stride(2)) {}

  // The first element of a head of row i of (b n).
  __device__ std::int64_t at(std::int64_t i, std::int64_t h) const { return i / n * item + i % n * row + h * head; }

  Elements<R> of;
  std::int64_t n, item, row, head;
};

}  // namespace fovea::device
