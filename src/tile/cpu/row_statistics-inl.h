// What forward collects of a row besides its output, where somebody asks: the entropy of its weights and its largest
// scores.

#if defined(FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
#undef FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
#else
#define FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "hwy/highway.h"
#include "policy/softmax.h"
#include "tile/cpu/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Forward as it is when nobody asks.
template <class R>
struct NoStatistics {
  static constexpr bool kActive = false;
  NoStatistics(const ForwardCall&, TileSize, Carver&) {}
};

// One thread's rows, one per lane. Scores are in units of 1 / Softmax::kUnit until they are written.
template <class R>
struct RowSums {
  static constexpr bool kActive = true;
  using Key = hn::TFromD<hn::RebindToSigned<hn::ScalableTag<R>>>;  // as wide as a score
  R* weighted;                                                     // [lanes]: sum of share (score - top)
  R* scores;  // [top, lanes]: the largest, in order; a score that is not larger than the last is passed over
  Key* keys;  // [top, lanes]

  RowSums(const ForwardCall& call, TileSize tile, Carver& carver) {
    const auto lanes = padded_width<R>(tile.query), kept = call.statistics->top * lanes;
    weighted = carver.take<R>(lanes);
    scores = carver.take<R>(kept);
    keys = carver.take<Key>(kept);
  }
};

// As fold of forward; what was collected under one maximum goes on under the next.
template <class R>
HWY_NOINLINE void fold_measured(R* HWY_RESTRICT factor, const R* HWY_RESTRICT top, R* HWY_RESTRICT sum,
                                R* HWY_RESTRICT weighted, std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
      const R below = factor[l] - top[l];
      factor[l] = Softmax::fold(factor[l], top[l]);
      weighted[l] = factor[l] * (weighted[l] + sum[l] * below);
      sum[l] *= factor[l];
    }
}

// Keys that are taken at a time: their sums stay in registers, and one comparison tells that none of them is kept.
inline constexpr std::int64_t kKeysAtOnce = 4;

// One score: as Softmax weighs it, with the same bits. A share of 0 stands for a score of -infinity, too.
template <class R>
HWY_INLINE void weigh_one(R& s, R top, R& sum, R& weighted) {
  constexpr R kLowest = -math::Real<R>::kBias;
  const R below = s - top, bounded = below < kLowest ? kLowest : below;
  s = math::exp2_low(bounded);
  sum += s;
  weighted += s * bounded;
}

template <class R>
HWY_NOINLINE void weigh_key(R* HWY_RESTRICT s, const R* HWY_RESTRICT top, R* HWY_RESTRICT sum, R* HWY_RESTRICT weighted,
                            std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l) weigh_one(s[l], top[l], sum[l], weighted[l]);
}

// Four keys, each by itself: only of parameters the compiler believes that they are apart.
template <class R>
HWY_NOINLINE void weigh_keys(R* HWY_RESTRICT s0, R* HWY_RESTRICT s1, R* HWY_RESTRICT s2, R* HWY_RESTRICT s3,
                             const R* HWY_RESTRICT top, R* HWY_RESTRICT sum, R* HWY_RESTRICT weighted,
                             std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
      R total = sum[l], mean = weighted[l];
      weigh_one(s0[l], top[l], total, mean);
      weigh_one(s1[l], top[l], total, mean);
      weigh_one(s2[l], top[l], total, mean);
      weigh_one(s3[l], top[l], total, mean);
      sum[l] = total;
      weighted[l] = mean;
    }
}

// The statistics of one query block of one head. All but few scores cost a quarter of a comparison.
template <class R>
class RowMeter {
 public:
  RowMeter(const RowStatistics& io, const Piece& piece, std::int64_t head, const RowSums<R>& sums)
      : io_(io), piece_(piece), head_(head), sums_(sums) {}

  void open(const TileAt& at) const {
    std::fill_n(sums_.weighted, at.lanes, R{0});
    std::fill_n(sums_.scores, io_.top * at.lanes, -math::kInfinity<R>);
    std::fill_n(sums_.keys, io_.top * at.lanes, -1);
    for (std::int64_t t = 0; t < io_.top; ++t)  // lanes of no query keep nothing
      std::fill_n(sums_.scores + t * at.lanes + at.qc, at.lanes - at.qc, math::kInfinity<R>);
  }

  // Keeps the largest scores of a tile.
  HWY_NOINLINE void keep_top(const TileAt& at, const R* HWY_RESTRICT s) const {
    const hn::ScalableTag<R> d;
    const auto width = static_cast<std::int64_t>(hn::Lanes(d));
    const std::int64_t lanes = at.lanes, whole = at.kc - at.kc % kKeysAtOnce;
    const R* HWY_RESTRICT least = last(at);
    std::int64_t j = 0;
    for (; j < whole; j += kKeysAtOnce, s += kKeysAtOnce * lanes)
      for (std::int64_t c = 0; c < lanes; c += width) {
        const R* HWY_RESTRICT x = s + c;
        const auto first = hn::Max(hn::LoadU(d, x), hn::LoadU(d, x + lanes));
        const auto second = hn::Max(hn::LoadU(d, x + 2 * lanes), hn::LoadU(d, x + 3 * lanes));
        if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Gt(hn::Max(first, second), hn::LoadU(d, least + c)))))
          for (std::int64_t i = 0; i < kKeysAtOnce; ++i) enter(at, {j + i, c}, x + i * lanes);
      }
    for (; j < at.kc; ++j, s += lanes)
      for (std::int64_t c = 0; c < lanes; c += width) enter(at, {j, c}, s + c);
  }

  void fold(const TileAt& at, R* factor, const R* top, R* sum) const {
    fold_measured(factor, top, sum, sums_.weighted, at.lanes);
  }
  void weigh(const TileAt& at, R* s, const R* top, R* sum) const {
    const std::int64_t lanes = at.lanes;
    std::int64_t j = 0;
    for (; j + kKeysAtOnce <= at.kc; j += kKeysAtOnce, s += kKeysAtOnce * lanes)
      weigh_keys(s, s + lanes, s + 2 * lanes, s + 3 * lanes, top, sum, sums_.weighted, lanes);
    for (; j < at.kc; ++j, s += lanes) weigh_key(s, top, sum, sums_.weighted, lanes);
  }

  // H = ln sum e^(s - top) - mean of (s - top)
  void close(const TileAt& at, const R* sum) const {
    for (std::int64_t l = 0; l < at.qc; ++l) {
      const R entropy = math::log(sum[l]) - math::kLn2<R> * (sums_.weighted[l] / sum[l]);
      const bool exists = std::isfinite(entropy);
      const std::int64_t row = piece_.query_row(at.q0 + l);
      R* to = static_cast<R*>(element(io_.entropy, dtype_of<R>, piece_.batch, row, head_));
      *to = !exists ? std::numeric_limits<R>::quiet_NaN() : entropy < 0 ? R{0} : entropy;
      auto* scores = static_cast<R*>(element(io_.top_scores, dtype_of<R>, piece_.batch, row, head_));
      auto* keys = static_cast<std::int32_t*>(element(io_.top_keys, DType::i32, piece_.batch, row, head_));
      for (std::int64_t t = 0; t < io_.top; ++t) {
        scores[t] = sums_.scores[t * at.lanes + l] * math::kLn2<R>;
        keys[t] = exists ? static_cast<std::int32_t>(sums_.keys[t * at.lanes + l]) : -1;
      }
    }
  }

 private:
  struct Spot {
    std::int64_t key, lane;  // in the tile, of the first of a vector
  };
  R* last(const TileAt& at) const { return sums_.scores + (io_.top - 1) * at.lanes; }

  // A vector of scores of one key takes the place of the last ones that are smaller, and rises. Of equal scores the
  // earlier key stays in front.
  HWY_INLINE void enter(const TileAt& at, Spot spot, const R* s) const {
    const hn::ScalableTag<R> d;
    const hn::RebindToSigned<decltype(d)> dk;
    R* score = last(at) + spot.lane;
    const auto least = hn::LoadU(d, score), mine = hn::LoadU(d, s);
    auto larger = hn::Gt(mine, least);
    if (hn::AllFalse(d, larger)) return;
    auto* key = sums_.keys + (io_.top - 1) * at.lanes + spot.lane;
    auto rising = hn::IfThenElse(larger, mine, least);
    auto its_key = hn::IfThenElse(hn::RebindMask(dk, larger),
                                  hn::Set(dk, static_cast<typename RowSums<R>::Key>(piece_.key_row(at.k0 + spot.key))),
                                  hn::LoadU(dk, key));
    for (std::int64_t t = io_.top - 1; t > 0; --t, score -= at.lanes, key -= at.lanes) {
      const auto above = hn::LoadU(d, score - at.lanes);
      const auto key_above = hn::LoadU(dk, key - at.lanes);
      larger = hn::Gt(rising, above);
      if (hn::AllFalse(d, larger)) break;
      const auto key_larger = hn::RebindMask(dk, larger);
      hn::StoreU(hn::IfThenElse(larger, above, rising), d, score);
      hn::StoreU(hn::IfThenElse(key_larger, key_above, its_key), dk, key);
      rising = hn::IfThenElse(larger, rising, above);
      its_key = hn::IfThenElse(key_larger, its_key, key_above);
    }
    hn::StoreU(rising, d, score);
    hn::StoreU(its_key, dk, key);
  }

  const RowStatistics& io_;
  const Piece& piece_;
  std::int64_t head_;
  const RowSums<R>& sums_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
