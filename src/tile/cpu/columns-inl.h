// Whole rows of scores as columns of a tile [keys x lanes]: lanes are queries, and kChunk of them are worked on
// together, each with its own numbers.

#if defined(FOVEA_TILE_CPU_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_COLUMNS_INL_H_
#undef FOVEA_TILE_CPU_COLUMNS_INL_H_
#else
#define FOVEA_TILE_CPU_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "policy/softmax.h"
#include "tile/cpu/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Whole rows of one query block.
template <class R>
struct RowTile {
  R* s;  // scores in, weights out
  R* g;  // gradients of the weights in, of the scores out; null in forward
  std::int64_t keys, lanes;
  const std::int64_t* diagonal;  // [lanes]: where the key at the query's own position stands, or -1
};

// A value for each lane of a chunk.
template <class R>
struct PerLane {
  alignas(64) R at[kChunk<R>];

  explicit PerLane(R value) { std::fill_n(at, kChunk<R>, value); }
  R& operator[](std::int64_t l) { return at[l]; }
  R operator[](std::int64_t l) const { return at[l]; }
};
template <class R, class F>
HWY_INLINE void for_each_lane(F&& f) {
  for (std::int64_t l = 0; l < kChunk<R>; ++l) f(l);
}

// The columns of one chunk.
template <class R>
class Columns {
 public:
  Columns(const RowTile<R>& tile, std::int64_t first)
      : s_(tile.s + first), g_(tile.g == nullptr ? nullptr : tile.g + first), keys_(tile.keys), ld_(tile.lanes) {}

  // f(score, lane) for every key in order; the score may be changed. (Left to itself the compiler unrolls some of these
  // loops into branches: sparsemax took four times as long.)
  template <class F>
  HWY_INLINE void each(F&& f) const {
    R* HWY_RESTRICT s = s_;
    for (std::int64_t j = 0; j < keys_; ++j, s += ld_)
#pragma omp simd
      for (std::int64_t l = 0; l < kChunk<R>; ++l) f(s[l], l);
  }
  // f(score, gradient, lane)
  template <class F>
  HWY_INLINE void each_pair(F&& f) const {
    R* HWY_RESTRICT s = s_;
    R* HWY_RESTRICT g = g_;
    for (std::int64_t j = 0; j < keys_; ++j, s += ld_, g += ld_)
#pragma omp simd
      for (std::int64_t l = 0; l < kChunk<R>; ++l) f(s[l], g[l], l);
  }
  R& score(std::int64_t key, std::int64_t lane) const { return s_[key * ld_ + lane]; }

  HWY_NOINLINE PerLane<R> largest() const {
    PerLane<R> top(Softmax::kFloor<R>);
    each([&](R s, std::int64_t l) { top[l] = math::larger(s, top[l]); });
    return top;
  }
  // Of those that are not masked; infinity where all are.
  HWY_NOINLINE PerLane<R> smallest() const {
    PerLane<R> least(math::kInfinity<R>);
    each([&](R s, std::int64_t l) { least[l] = s < least[l] && s > -math::kInfinity<R> ? s : least[l]; });
    return least;
  }

 private:
  R* s_;
  R* g_;
  std::int64_t keys_, ld_;
};

// Softmax of columns whose largest scores are known.
template <class R>
HWY_INLINE R exponential(R score, R top) {
  return math::exp2_low((score - top) * math::kLog2e<R>);
}
// 1 / sum of the exponentials; 0 for a row without keys.
template <class R>
HWY_NOINLINE PerLane<R> softmax_factor(const Columns<R>& columns, const PerLane<R>& top) {
  PerLane<R> sum(0);
  columns.each([&](R s, std::int64_t l) { sum[l] += exponential(s, top[l]); });
  for_each_lane<R>([&](std::int64_t l) { sum[l] = Softmax::close(sum[l]); });
  return sum;
}
template <class R>
HWY_NOINLINE void softmax(const Columns<R>& columns, const PerLane<R>& top) {
  PerLane<R> sum(0);
  columns.each([&](R& s, std::int64_t l) {
    s = exponential(s, top[l]);
    sum[l] += s;
  });
  for_each_lane<R>([&](std::int64_t l) { sum[l] = Softmax::close(sum[l]); });
  columns.each([&](R& s, std::int64_t l) { s *= sum[l]; });
}
// dS = P (g - mean g) in two steps: where one key has nearly all weight, g - mean nearly cancels, and the second mean
// brings back what the first lost to its rounding and to that of the weights, whose sum is not exactly 1.
template <class R>
HWY_NOINLINE void subtract_mean(const Columns<R>& columns) {
  PerLane<R> mean(0);
  columns.each_pair([&](R p, R g, std::int64_t l) { mean[l] += p == 0 ? R{0} : p * g; });
  columns.each_pair([&](R, R& g, std::int64_t l) { g -= mean[l]; });
}
template <class R>
HWY_NOINLINE void vjp_softmax(const Columns<R>& columns) {
  subtract_mean(columns);
  PerLane<R> rest(0);
  columns.each_pair([&](R p, R g, std::int64_t l) { rest[l] += p == 0 ? R{0} : p * g; });
  columns.each_pair([&](R p, R& g, std::int64_t l) { g = Softmax::vjp(R{0}, p, g, rest[l]); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_COLUMNS_INL_H_
