// Products and masks on the scratch of one (chunk, head), compiled once per instruction set.

#if defined(FOVEA_SCAN_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SCAN_CHUNK_INL_H_
#undef FOVEA_SCAN_CHUNK_INL_H_
#else
#define FOVEA_SCAN_CHUNK_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"
#include "scan/cpu/buffers.h"
#include "scan/cpu/decay-inl.h"
#include "simd/product-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {
namespace simd = ::fovea::HWY_NAMESPACE;
using simd::StartAdd;
using simd::StartZero;

// c[m x n] = start + a b, see simd/product-inl.h.
template <Order kOrder, class Start, class R>
void times(Matrix<const R> a, Matrix<const R> b, Matrix<R> c, const Extent& size, Prefetch* next) {
  const Product<R> p = {a.data, a.ld, b.data, b.ld, c.data, c.ld, size.m, padded<R>(size.n), size.k, next};
  simd::product<kOrder>(p, Start{});
}

// Register tiles of a product, which is how often it fetches ahead.
template <class R>
std::size_t tiles(std::size_t m, std::size_t n) {
  constexpr std::size_t kColumns = simd::kTileVectors * simd::hn::MaxLanes(simd::hn::ScalableTag<R>());
  return (m + simd::kTileRows - 1) / simd::kTileRows * ((n + kColumns - 1) / kColumns);
}

// From this row and column on.
template <class R>
Matrix<R> from(Matrix<R> x, std::size_t row, std::size_t column) {
  return {x.row(row) + column, x.ld};
}

// Which side of the diagonal is kept.
enum class Lanes { keys, queries };  // lane <= row, lane >= row

// Weighs the kept scores by the decay between query and key and clears the others: by choice, not by a zero factor,
// so that an infinity in the future stays there.
template <Lanes kLanes, class R>
HWY_NOINLINE void mask(Matrix<R> scores, std::size_t c, const Weights<R>& weights) {
  const int columns = static_cast<int>(padded<R>(c));
  for (int i = 0; i < static_cast<int>(c); ++i) {
    R* HWY_RESTRICT row = scores.row(static_cast<std::size_t>(i));
    if (weights.pairs == nullptr) {
      for (int l = 0; l < columns; ++l) row[l] = (kLanes == Lanes::keys ? l <= i : l >= i) ? row[l] : R{0};
    } else {
      const R* HWY_RESTRICT weight = weights.pairs + i * weights.pair_step;
      const int end = static_cast<int>(c);  // the weights end where the chunk does
      for (int l = 0; l < end; ++l) row[l] = (kLanes == Lanes::keys ? l <= i : l >= i) ? row[l] * weight[l] : R{0};
    }
  }
}

// Triangles are multiplied in blocks of this many rows; blocks on the wrong side of the diagonal are left out.
template <class R>
inline constexpr std::size_t kTriangle = kPad<R>;

// scores = a b on one side of the diagonal; mask() does the rest. a: [c][k], b: [k][c lanes].
template <Lanes kLanes, class R>
void score(Matrix<const R> a, Matrix<const R> b, Matrix<R> scores, const Extent& size, Prefetch* next) {
  const std::size_t c = size.m;
  for (std::size_t at = 0; at < c; at += kTriangle<R>) {
    const std::size_t end = std::min(c, at + kTriangle<R>);
    const std::size_t first = kLanes == Lanes::keys ? 0 : at, last = kLanes == Lanes::keys ? end : c;
    times<Order::rows, StartZero, R>(from(a, at, 0), from(b, 0, first), from(scores, at, first),
                                     {end - at, last - first, size.k}, next);
  }
}

// x += scores y over the keys: rows of x are queries. scores: [c queries][c keys], y: [c keys][n].
template <class R>
void read_keys(Matrix<const R> scores, Matrix<const R> y, Matrix<R> x, const Extent& size, Prefetch* next) {
  for (std::size_t at = 0; at < size.m; at += kTriangle<R>) {
    const std::size_t end = std::min(size.m, at + kTriangle<R>);
    times<Order::rows, StartAdd, R>(from(scores, at, 0), y, from(x, at, 0), {end - at, size.n, end}, next);
  }
}

// x += scores^T y over the queries: rows of x are keys. scores: [c queries][c keys], y: [c queries][n].
template <class R>
void read_queries(Matrix<const R> scores, Matrix<const R> y, Matrix<R> x, const Extent& size, Prefetch* next) {
  for (std::size_t at = 0; at < size.m; at += kTriangle<R>) {
    const std::size_t end = std::min(size.m, at + kTriangle<R>);
    times<Order::columns, StartAdd, R>(from(scores, at, at), from(y, at, 0), from(x, at, 0),
                                       {end - at, size.n, size.m - at}, next);
  }
}

// x += y^T scores: y [c][m], scores and x with c lanes of the kind given, x [m][c].
template <Lanes kLanes, class R>
void read_across(Matrix<const R> y, Matrix<const R> scores, Matrix<R> x, const Extent& size, Prefetch* next) {
  const std::size_t c = size.k;
  for (std::size_t at = 0; at < c; at += kTriangle<R>) {
    const std::size_t end = std::min(c, at + kTriangle<R>);
    const std::size_t first = kLanes == Lanes::keys ? 0 : at, last = kLanes == Lanes::keys ? end : c;
    times<Order::columns, StartAdd, R>(from(y, at, 0), from(scores, at, first), from(x, 0, first),
                                       {size.m, last - first, end - at}, next);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SCAN_CHUNK_INL_H_
