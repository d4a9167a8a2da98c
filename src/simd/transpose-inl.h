// Transposition of small matrices in registers, compiled once per instruction set.
//
// Include after hwy/highway.h, inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SIMD_TRANSPOSE_INL_H_
#undef FOVEA_SIMD_TRANSPOSE_INL_H_
#else
#define FOVEA_SIMD_TRANSPOSE_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "simd/matrix.h"
#include "simd/product.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET <= HWY_AVX3

// Exchanges 128-bit blocks so that row r of the result holds block r of every row of a group; one step per doubling.
template <class D, class V>
HWY_INLINE void transpose_blocks(D d, V* rows, std::size_t per_block) {
  const std::size_t lanes = hn::Lanes(d), half = lanes / 2;
  for (std::size_t r = 0; r < half; ++r) {
    const V a = rows[r], b = rows[r + half];
    rows[r] = hn::ConcatLowerLower(d, b, a);
    rows[r + half] = hn::ConcatUpperUpper(d, b, a);
  }
  if (lanes / per_block < 4) return;
  for (std::size_t base = 0; base < lanes; base += half)
    for (std::size_t r = base; r < base + per_block; ++r) {
      const V a = rows[r], b = rows[r + per_block];
      rows[r] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a);
      rows[r + per_block] = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
    }
}

// Transposes the square inside every 128-bit block: 4x4 floats or 2x2 doubles.
template <class D, class V>
HWY_INLINE void transpose_inside(D d, V* rows) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const V a = rows[0], b = rows[1];
    rows[0] = hn::InterleaveLower(d, a, b);
    rows[1] = hn::InterleaveUpper(d, a, b);
  } else {
    const hn::Repartition<double, D> pairs;
    const V low01 = hn::InterleaveLower(d, rows[0], rows[1]), high01 = hn::InterleaveUpper(d, rows[0], rows[1]);
    const V low23 = hn::InterleaveLower(d, rows[2], rows[3]), high23 = hn::InterleaveUpper(d, rows[2], rows[3]);
    const auto a = hn::BitCast(pairs, low01), b = hn::BitCast(pairs, low23);
    const auto e = hn::BitCast(pairs, high01), f = hn::BitCast(pairs, high23);
    rows[0] = hn::BitCast(d, hn::InterleaveLower(pairs, a, b));
    rows[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, a, b));
    rows[2] = hn::BitCast(d, hn::InterleaveLower(pairs, e, f));
    rows[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, e, f));
  }
}

// One square of as many rows as a vector has lanes.
template <class T>
HWY_NOINLINE void transpose_square(const T* HWY_RESTRICT from, std::size_t ld_from, T* HWY_RESTRICT to,
                                   std::size_t ld_to) {
  const hn::ScalableTag<T> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d), kBlock = 16 / sizeof(T);
  hn::Vec<decltype(d)> rows[kLanes];
  for (std::size_t r = 0; r < kLanes; ++r) rows[r] = hn::LoadU(d, from + r * ld_from);
  transpose_blocks(d, rows, kBlock);
  for (std::size_t r = 0; r < kLanes; r += kBlock) transpose_inside(d, rows + r);
  for (std::size_t r = 0; r < kLanes; ++r) hn::StoreU(rows[r], d, to + r * ld_to);
}

template <class T>
inline constexpr std::size_t kSquare = hn::MaxLanes(hn::ScalableTag<T>());

#else

template <class T>
inline constexpr std::size_t kSquare = kPad<T>;

template <class T>
HWY_NOINLINE void transpose_square(const T* HWY_RESTRICT from, std::size_t ld_from, T* HWY_RESTRICT to,
                                   std::size_t ld_to) {
  for (std::size_t r = 0; r < kSquare<T>; ++r)
    for (std::size_t c = 0; c < kSquare<T>; ++c) to[c * ld_to + r] = from[r * ld_from + c];
}

#endif

// to[c][r] = from[r][c]. Works in whole squares: reads up to padded(rows) rows of padded(columns), writes as many the
// other way round.
template <class T>
void transpose(Matrix<const T> from, Matrix<T> to, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; r += kSquare<T>)
    for (std::size_t c = 0; c < columns; c += kSquare<T>)
      transpose_square(from.row(r) + c, from.ld, to.row(c) + r, to.ld);
}

// The same within exact bounds, for memory without padding.
template <class T>
HWY_NOINLINE void transpose_within(Matrix<const T> from, Matrix<T> to, std::size_t rows, std::size_t columns) {
  const std::size_t square_rows = rows / kSquare<T> * kSquare<T>, square_columns = columns / kSquare<T> * kSquare<T>;
  transpose(from, to, square_rows, square_columns);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = r < square_rows ? square_columns : 0; c < columns; ++c) to.row(c)[r] = from.row(r)[c];
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SIMD_TRANSPOSE_INL_H_
