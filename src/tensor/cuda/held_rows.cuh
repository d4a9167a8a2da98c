#pragma once

#include <initializer_list>

#include "tensor/cuda/map.cuh"
#include "tensor/cuda/rows.cuh"

// Rows of dense (rows, width) tensors that are looked at several times: eight neighbours at once, and the first of them
// stay in registers.
namespace fovea::device {

// Eight neighbours as they lie in memory. Several are on their way at once where they are loaded before the first is
// looked at.
template <DType kType>
struct RawPack {
  static constexpr int kWords = kType == DType::f64 ? 4 : kType == DType::f32 ? 2 : 1;
  uint4 words[kWords];

  template <class R>
  __device__ void load(const Elements<R>& from, std::int64_t i) {
    const auto* const at = reinterpret_cast<const uint4*>(static_cast<const std::byte*>(from.data) + 2 * kWords * i);
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] = at[w];
  }
  template <class R>
  __device__ void get(R (&to)[kPack]) const {
    load_pack(Elements<R>{const_cast<uint4*>(words), kType}, 0, to);
  }
};

// How the elements of a row are read: in packs where all tensors allow it. kType: what they are stored as. It is known
// when the kernel is compiled, or loads would wait for one another at the branches.
template <DType kType>
struct PackedRow {
  static constexpr DType type = kType;
  std::int64_t width = 0;
  bool has_packs = false;

  PackedRow(std::int64_t width, std::initializer_list<const Tensor*> tensors)
      : width(width), has_packs(width % kPack == 0) {
    for (const Tensor* t : tensors)
      if (t->defined()) has_packs = has_packs && reinterpret_cast<std::uintptr_t>(t->raw()) % 16 == 0;
  }
  __device__ int left(std::int64_t column) const {
    return width - column < kPack ? static_cast<int>(width - column) : kPack;
  }
  // The pack from `column` on of the row that begins at `begin`; 0 behind its end.
  template <class R>
  __device__ void load(const Elements<R>& from, std::int64_t begin, std::int64_t column, R (&to)[kPack]) const {
    const Elements<R> typed{from.data, kType};
    if (has_packs) return load_pack(typed, begin + column, to);
#pragma unroll
    for (int e = 0; e < kPack; ++e) to[e] = e < left(column) ? typed[begin + column + e] : R(0);
  }
  template <class R>
  __device__ void store(const Elements<R>& to, std::int64_t begin, std::int64_t column, const R (&from)[kPack]) const {
    const Elements<R> typed{to.data, kType};
    if (has_packs) return store_pack(typed, begin + column, from);
#pragma unroll
    for (int e = 0; e < kPack; ++e)
      if (e < left(column)) typed.put(begin + column + e, from[e]);
  }
  // The same of numbers in the wide type.
  __device__ PackedRow<kType == DType::f64 ? DType::f64 : DType::f32> wide() const { return {width, has_packs}; }
  __host__ __device__ PackedRow(std::int64_t width, bool has_packs) : width(width), has_packs(has_packs) {}
};

// f<R, kType>() for the type of the arithmetic and that of the storage.
template <class F>
void visit_stored(DType dtype, const F& f) {
  switch (dtype) {
    case DType::bf16: return f.template operator()<float, DType::bf16>();
    case DType::f16: return f.template operator()<float, DType::f16>();
    case DType::f64: return f.template operator()<double, DType::f64>();
    default: return f.template operator()<float, DType::f32>();
  }
}

// x as it would come back from memory.
template <class R>
__device__ inline R as_stored(DType dtype, R x) {
  if (dtype == DType::bf16) return static_cast<R>(__bfloat162float(__float2bfloat16_rn(static_cast<float>(x))));
  if (dtype == DType::f16) return static_cast<R>(__half2float(__float2half_rn(static_cast<float>(x))));
  return x;
}

// One row, of which the lanes of a group hold kPacks packs each. What is wider is read again at every look.
template <class R, int kPacks, class Group, class Shape>
struct HeldRow {
  const Group& group;
  const Shape& shape;
  R held[kPacks][kPack];

  __device__ HeldRow(const Group& group, const Shape& shape) : group(group), shape(shape) {}

  // Those of the row that begins at `begin`.
  __device__ void load(const Elements<R>& from, std::int64_t begin, R (&to)[kPacks][kPack]) const {
    if (shape.has_packs) {
      RawPack<Shape::type> raw[kPacks] = {};
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
        if (column(p) < shape.width) raw[p].load(from, begin + column(p));
#pragma unroll
      for (int p = 0; p < kPacks; ++p) raw[p].get(to[p]);
    } else {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) shape.load(from, begin, column(p), to[p]);
    }
  }
  // f(column, pack) for the packs that are held; what it writes stays.
  template <class F>
  __device__ void each_held(const F& f) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (column(p) < shape.width) f(column(p), held[p]);
  }
  // The same for all; again(column, pack) gives those that are not held.
  template <class Again, class F>
  __device__ void packs(const Again& again, const F& f) {
    each_held(f);
    each_left([&](std::int64_t c) {
      R pack[kPack];
      again(c, pack);
      f(c, pack);
    });
  }
  // f(column, pack of `other`, pack) for those that are held.
  template <class F>
  __device__ void packs_with(const R (&other)[kPacks][kPack], const F& f) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (column(p) < shape.width) f(column(p), other[p], held[p]);
  }
  // f(column) for those that are not.
  template <class F>
  __device__ void each_left(const F& f) const {
    for (std::int64_t c = column(kPacks); c < shape.width; c += Group::lanes * kPack) f(c);
  }
  // The sum of f(column, x) over the row.
  template <class Again, class F>
  __device__ R sum(const Again& again, const F& f) {
    R sum(0);
    packs(again, [&](std::int64_t c, R(&x)[kPack]) {
      const int left = shape.has_packs ? kPack : shape.left(c);
      if (left == kPack) {
#pragma unroll
        for (int e = 0; e < kPack; ++e) sum += f(c + e, x[e]);
      } else {
#pragma unroll
        for (int e = 0; e < kPack; ++e)
          if (e < left) sum += f(c + e, x[e]);
      }
    });
    return group.sum(sum);
  }

 private:
  __device__ std::int64_t column(int p) const { return (std::int64_t{p} * Group::lanes + group.lane) * kPack; }
};

template <int kPacks, class F>
struct WithPacks {
  F f;
  template <class Group>
  __device__ void operator()(const Group& group) const {
    f.template run<kPacks>(group);
  }
};

template <int kLanes, int kPacks, class F>
void held_rows_by(const Queue& queue, std::int64_t count, const F& f) {
  rows_kernel<kLanes>
      <<<blocks_for(count, kThreads / kLanes), kThreads, 0, queue.stream>>>(WithPacks<kPacks, F>{f}, count);
}

// f.run<kPacks>(group) for every row: lanes of a warp, a warp or a block, with room for the row where that is at most
// 8192 wide.
template <class F>
void held_rows(const Queue& queue, std::int64_t count, std::int64_t width, const F& f) {
  if (count <= 0) return;
  if (width <= 8 * kPack)
    held_rows_by<8, 1>(queue, count, f);
  else if (width <= 16 * kPack)
    held_rows_by<16, 1>(queue, count, f);
  else if (width <= 32 * kPack)
    held_rows_by<32, 1>(queue, count, f);
  else if (width <= kWidestOfWarp)
    held_rows_by<32, 4>(queue, count, f);
  else if (width <= kThreads * kPack)
    held_rows_by<kThreads, 1>(queue, count, f);
  else
    held_rows_by<kThreads, 4>(queue, count, f);
  check_cuda(cudaGetLastError(), "a loop over rows");
}

}  // namespace fovea::device
