// What forward collects of a row besides its output, where somebody asks: the entropy of its weights and its largest
// scores.

#if defined(FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
#undef FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
#else
#define FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
#endif

#include <algorithm>
#include <bit>
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
  NoStatistics(TileSize, Carver&) {}
};

// One thread's rows, one per lane. Scores are in units of 1 / Softmax::kUnit until they are written.
template <class R>
struct RowSums {
  static constexpr bool kActive = true;
  R* weighted;  // [lanes]: sum of share (score - top)
  R* least;     // [lanes]: the least of the scores that are kept; a score that is not larger is passed over

  RowSums(TileSize tile, Carver& carver) {
    const auto lanes = static_cast<std::int64_t>(padded<R>(static_cast<std::size_t>(tile.query)));
    weighted = carver.take<R>(lanes);
    least = carver.take<R>(lanes);
  }
};

// `before` and `sum` are those before this tile: what was collected under one maximum goes on under the next.
template <class R>
HWY_NOINLINE void fold_weighted(const R* HWY_RESTRICT before, const R* HWY_RESTRICT top, const R* HWY_RESTRICT sum,
                                R* HWY_RESTRICT weighted, std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l)
      weighted[l] = Softmax::fold(before[l], top[l]) * (weighted[l] + sum[l] * (before[l] - top[l]));
}

// As weigh_shares of Softmax, with the same bits. A share of 0 stands for a score of -infinity, too.
template <class R>
HWY_NOINLINE void weigh_measured(const TileAt& at, R* HWY_RESTRICT s, const R* HWY_RESTRICT top, R* HWY_RESTRICT sum,
                                 R* HWY_RESTRICT weighted) {
  const std::int64_t keys = at.kc, lanes = at.lanes;
  for (std::int64_t j = 0; j < keys; ++j, s += lanes)
    for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
      for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
        constexpr R kLowest = -math::Real<R>::kBias;
        const R below = s[l] - top[l], bounded = below < kLowest ? kLowest : below;
        const R share = math::exp2_low(bounded);
        sum[l] += share;
        weighted[l] += share * bounded;
        s[l] = share;
      }
}

// The statistics of one query block of one head. The largest scores of a row stand in the caller's arrays from the
// start, in order; all but few scores cost one comparison.
template <class R>
class RowMeter {
 public:
  RowMeter(const RowStatistics& io, const Piece& piece, std::int64_t head, const RowSums<R>& sums)
      : io_(io), piece_(piece), head_(head), sums_(sums) {}

  void open(const TileAt& at) const {
    std::fill_n(sums_.weighted, at.lanes, R{0});
    std::fill_n(sums_.least, at.lanes, math::kInfinity<R>);  // lanes of no query keep nothing
    for (std::int64_t l = 0; l < at.qc; ++l) {
      const Row row = row_of(at, l);
      std::fill_n(row.scores, io_.top, -math::kInfinity<R>);
      std::fill_n(row.keys, io_.top, -1);
      sums_.least[l] = -math::kInfinity<R>;
    }
  }

  // Keeps the largest scores of a tile.
  HWY_NOINLINE void keep_top(const TileAt& at, const R* HWY_RESTRICT s) const {
    const hn::ScalableTag<R> d;
    const auto width = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t j = 0; j < at.kc; ++j, s += at.lanes)
      for (std::int64_t c = 0; c < at.lanes; c += width) {
        const auto larger = hn::Gt(hn::LoadU(d, s + c), hn::LoadU(d, sums_.least + c));
        if (HWY_UNLIKELY(!hn::AllFalse(d, larger))) {
          std::uint8_t bits[8] = {};
          hn::StoreMaskBits(d, larger, bits);
          enter(at, {j, c}, s, bits);
        }
      }
  }

  void fold(const TileAt& at, const R* before, const R* top, const R* sum) const {
    fold_weighted(before, top, sum, sums_.weighted, at.lanes);
  }
  void weigh(const TileAt& at, R* s, const R* top, R* sum) const { weigh_measured(at, s, top, sum, sums_.weighted); }

  // H = ln sum e^(s - top) - mean of (s - top)
  void close(const TileAt& at, const R* sum) const {
    for (std::int64_t l = 0; l < at.qc; ++l) {
      const R entropy = math::log(sum[l]) - math::kLn2<R> * (sums_.weighted[l] / sum[l]);
      const bool exists = std::isfinite(entropy);
      R* to = static_cast<R*>(element(io_.entropy, dtype_of<R>, piece_.batch, piece_.query_row(at.q0 + l), head_));
      *to = !exists ? std::numeric_limits<R>::quiet_NaN() : entropy < 0 ? R{0} : entropy;
      const Row row = row_of(at, l);
      for (std::int64_t t = 0; t < io_.top; ++t) row.scores[t] *= math::kLn2<R>;
      if (!exists) std::fill_n(row.keys, io_.top, -1);
    }
  }

 private:
  struct Row {
    R* scores;
    std::int32_t* keys;
  };
  Row row_of(const TileAt& at, std::int64_t lane) const {
    const std::int64_t row = piece_.query_row(at.q0 + lane);
    return {static_cast<R*>(element(io_.top_scores, dtype_of<R>, piece_.batch, row, head_)),
            static_cast<std::int32_t*>(element(io_.top_keys, DType::i32, piece_.batch, row, head_))};
  }

  struct Spot {
    std::int64_t key, lane;  // in the tile, of the first bit
  };
  HWY_NOINLINE void enter(const TileAt& at, Spot spot, const R* s, const std::uint8_t* bits) const {
    const auto key = static_cast<std::int32_t>(piece_.key_row(at.k0 + spot.key));
    for (std::int64_t byte = 0; byte < 8; ++byte)
      for (std::uint32_t left = bits[byte]; left != 0; left &= left - 1) {
        const std::int64_t lane = spot.lane + 8 * byte + std::countr_zero(left);
        sums_.least[lane] = insert(row_of(at, lane), s[lane], key);
      }
  }

  // Gives the least that is kept afterwards. Of equal scores the earlier key comes first.
  R insert(const Row& row, R score, std::int32_t key) const {
    std::int64_t i = io_.top - 1;
    for (; i > 0 && row.scores[i - 1] < score; --i) {
      row.scores[i] = row.scores[i - 1];
      row.keys[i] = row.keys[i - 1];
    }
    row.scores[i] = score;
    row.keys[i] = key;
    return row.scores[io_.top - 1];
  }

  const RowStatistics& io_;
  const Piece& piece_;
  std::int64_t head_;
  RowSums<R> sums_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_ROW_STATISTICS_INL_H_
