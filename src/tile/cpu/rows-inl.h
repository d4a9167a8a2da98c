// Moving rows between the caller's arrays (any dtype, any row stride) and packed scratch of the accumulation type, and
// transposing small tiles.

#if defined(FOVEA_TILE_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_ROWS_INL_H_
#undef FOVEA_TILE_CPU_ROWS_INL_H_
#else
#define FOVEA_TILE_CPU_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "fovea/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of `width` elements, `stride` elements apart, in the caller's memory.
template <class Pointer>
struct Rows {
  Pointer data;
  DType dtype;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t width;
};

// Calls f with the storage types whose accumulation type is R.
template <class R, class F>
decltype(auto) visit_storage(DType dtype, F&& f) {
  if constexpr (std::is_same_v<R, double>) {
    return f.template operator()<double>();
  } else {
    switch (dtype) {
      case DType::bf16: return f.template operator()<bf16>();
      case DType::f16: return f.template operator()<f16>();
      default: return f.template operator()<float>();
    }
  }
}

// to[i][0 .. ld) = scale * from[i], zero beyond the width. Returns whether every element is finite.
template <class R>
HWY_NOINLINE bool load_rows(const Rows<const void*>& from, R scale, R* HWY_RESTRICT to, std::int64_t ld) {
  return visit_storage<R>(from.dtype, [&]<class T>() {
    R strange = 0;  // stays 0 while everything is finite: x - x is NaN for infinities and NaN
    for (std::int64_t i = 0; i < from.count; ++i) {
      const T* HWY_RESTRICT source = static_cast<const T*>(from.data) + i * from.stride;
      R* HWY_RESTRICT target = to + i * ld;
#pragma omp simd reduction(+ : strange)
      for (std::int64_t c = 0; c < from.width; ++c) {
        const R x = static_cast<R>(source[c]);
        target[c] = scale * x;
        strange += x - x;
      }
      for (std::int64_t c = from.width; c < ld; ++c) target[c] = 0;
    }
    return strange == 0;
  });
}

// to[i] = scale * from[i][0 .. width)
template <class R>
HWY_NOINLINE void store_rows(const R* HWY_RESTRICT from, std::int64_t ld, R scale, const Rows<void*>& to) {
  visit_storage<R>(to.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < to.count; ++i) {
      const R* HWY_RESTRICT source = from + i * ld;
      T* HWY_RESTRICT target = static_cast<T*>(to.data) + i * to.stride;
      for (std::int64_t c = 0; c < to.width; ++c) target[c] = static_cast<T>(scale * source[c]);
    }
  });
}

// A matrix in scratch or in the caller's memory of the same type.
template <class Pointer>
struct Matrix {
  Pointer data;
  std::int64_t ld;
};

// One 16-byte square: 4 x 4 floats or 2 x 2 doubles.
template <class T>
HWY_INLINE void transpose_square(const T* HWY_RESTRICT from, std::int64_t ld_from, T* HWY_RESTRICT to,
                                 std::int64_t ld_to) {
#if HWY_TARGET == HWY_SCALAR
  constexpr std::int64_t kSide = 16 / sizeof(T);
  for (std::int64_t i = 0; i < kSide; ++i)
    for (std::int64_t j = 0; j < kSide; ++j) to[j * ld_to + i] = from[i * ld_from + j];
#else
  const hn::FixedTag<T, 16 / sizeof(T)> d;
  if constexpr (sizeof(T) == 8) {
    const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + ld_from);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + ld_to);
  } else {
    const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + ld_from);
    const auto c = hn::LoadU(d, from + 2 * ld_from), e = hn::LoadU(d, from + 3 * ld_from);
    const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
    hn::StoreU(hn::InterleaveLower(d, ac, be), d, to);
    hn::StoreU(hn::InterleaveUpper(d, ac, be), d, to + ld_to);
    const auto ac_high = hn::InterleaveUpper(d, a, c), be_high = hn::InterleaveUpper(d, b, e);
    hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, to + 2 * ld_to);
    hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, to + 3 * ld_to);
  }
#endif
}

// to[j][i] = from[i][j] for i < rows, j < columns.
template <class T>
HWY_NOINLINE void transpose(Matrix<const T*> from, Matrix<T*> to, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSide = 16 / sizeof(T);
  std::int64_t i = 0;
  for (; i + kSide <= rows; i += kSide) {
    std::int64_t j = 0;
    for (; j + kSide <= columns; j += kSide)
      transpose_square(from.data + i * from.ld + j, from.ld, to.data + j * to.ld + i, to.ld);
    for (; j < columns; ++j)
      for (std::int64_t r = i; r < i + kSide; ++r) to.data[j * to.ld + r] = from.data[r * from.ld + j];
  }
  for (; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to.data[j * to.ld + i] = from.data[i * from.ld + j];
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_ROWS_INL_H_
