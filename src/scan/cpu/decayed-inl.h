// The triangle of a chunk whose channels decay each on their own, compiled once per instruction set. The weight of a
// pair then differs from channel to channel, so there is no product of matrices: the decay goes along with the rows.

#if defined(FOVEA_SCAN_DECAYED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SCAN_DECAYED_INL_H_
#undef FOVEA_SCAN_DECAYED_INL_H_
#else
#define FOVEA_SCAN_DECAYED_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "scan/cpu/chunk-inl.h"
#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Chunks have at most this many rows; those that are missing are zeros with a decay of 1.
template <class R>
inline constexpr int kBlock = static_cast<int>(kPad<R>);

// Rows are visited from the side where the kept triangle is narrow: with keys in the lanes from the first query on,
// with queries in the lanes from the last key on. At visit s, everything met so far decays by one more step.
template <Lanes kLanes, class R>
constexpr int row_of_visit(int s) {
  return kLanes == Lanes::keys ? s : kBlock<R> - 1 - s;
}
template <Lanes kLanes, class R>
constexpr int step_of_visit(int s) {
  return kLanes == Lanes::keys ? s : kBlock<R> - s;
}

// Lambdas on registers must not become calls.
#define FOVEA_UNROLLED __attribute__((always_inline))

// Operands of score_decayed.
template <class R>
struct DecayedScores {
  Matrix<const R> rows;    // [block][d_k] queries (keys)
  Matrix<const R> across;  // [d_k][block lanes] the others
  Matrix<const R> steps;   // [block + 1][d_k]
  Matrix<R> scores;        // [block][block lanes], 0 outside the triangle
  Matrix<R> weighted;  // [d_k][block lanes]: `across` with the decay between its lanes and the state; may be `across`
  std::size_t d_k;
};

// Rows of some visits against one vector of lanes: per channel, the lanes met so far decay once per row.
//
//   scores[r][l] = sum over channels of rows[r][a] across[a][l] product of steps between r and l
template <Lanes kLanes, int kFirst, int kRows, class R>
HWY_NOINLINE void score_visits(const DecayedScores<R>& x, std::size_t lane) {
  const hn::ScalableTag<R> d;
  using V = hn::Vec<decltype(d)>;
  using M = hn::Mask<decltype(d)>;
  const auto index = hn::Add(hn::Iota(d, R{0}), hn::Set(d, static_cast<R>(lane)));
  V sums[kRows];
  M met[kRows];
  simd::unroll<kRows>([&](auto s) FOVEA_UNROLLED {
    const auto row = hn::Set(d, static_cast<R>(row_of_visit<kLanes, R>(kFirst + s)));
    sums[s] = hn::Zero(d);
    met[s] = kLanes == Lanes::keys ? hn::Lt(index, row) : hn::Gt(index, row);
  });
  const Matrix<const R> from = kFirst == 0 ? x.across : Matrix<const R>(x.weighted);
  for (std::size_t a = 0; a < x.d_k; ++a) {
    V lanes = hn::LoadU(d, from.row(a) + lane);
    simd::unroll<kRows>([&](auto s) FOVEA_UNROLLED {
      constexpr std::size_t kRow = row_of_visit<kLanes, R>(kFirst + s), kStep = step_of_visit<kLanes, R>(kFirst + s);
      lanes = hn::IfThenElse(met[s], hn::Mul(lanes, hn::Set(d, x.steps.row(kStep)[a])), lanes);
      sums[s] = hn::MulAdd(hn::Set(d, x.rows.row(kRow)[a]), lanes, sums[s]);
    });
    if constexpr (kLanes == Lanes::queries && kFirst + kRows == kBlock<R>)
      lanes = hn::Mul(lanes, hn::Set(d, x.steps.data[a]));
    hn::StoreU(lanes, d, x.weighted.row(a) + lane);
  }
  simd::unroll<kRows>([&](auto s) FOVEA_UNROLLED {
    constexpr std::size_t kRow = row_of_visit<kLanes, R>(kFirst + s);
    const auto self = hn::Eq(index, hn::Set(d, static_cast<R>(kRow)));
    hn::StoreU(hn::IfThenElseZero(hn::Or(met[s], self), sums[s]), d, x.scores.row(kRow) + lane);
  });
}

template <Lanes kLanes, class R>
void score_decayed(const DecayedScores<R>& x) {
  constexpr int kRows = 8;
  static_assert(kBlock<R> % kRows == 0 && kBlock<R> <= 2 * kRows);
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<R>());
  for (std::size_t lane = 0; lane < kBlock<R>; lane += lanes) {
    score_visits<kLanes, 0, kRows>(x, lane);
    if constexpr (kBlock < R >> kRows) score_visits<kLanes, kRows, kRows>(x, lane);
  }
}

// Operands of read_decayed.
template <class R>
struct DecayedRead {
  Matrix<const R> scores;  // [block queries][block keys], the triangle alone is read
  Matrix<const R> rows;    // [block][d_k] keys (queries)
  Matrix<const R> steps;   // [block + 1][d_k]
  Matrix<R> sums;          // [block][d_k], in and out
  std::size_t d_k;
};

//   sums[r] += sum over rows s on the kept side of r:  score of the pair, rows[s], product of steps between s and r
//
// A vector of channels at a time; all rows met so far stay in registers.
template <Lanes kLanes, class R>
HWY_NOINLINE void read_decayed(const DecayedRead<R>& x) {
  const hn::ScalableTag<R> d;
  using V = hn::Vec<decltype(d)>;
  for (std::size_t a = 0; a < x.d_k; a += hn::Lanes(d)) {
    V met[kBlock<R>];
    simd::unroll<kBlock<R>>([&](auto s) FOVEA_UNROLLED {
      constexpr std::size_t kRow = row_of_visit<kLanes, R>(s), kStep = step_of_visit<kLanes, R>(s);
      met[s] = hn::LoadU(d, x.rows.row(kRow) + a);
      V sum = hn::LoadU(d, x.sums.row(kRow) + a);
      const V step = hn::LoadU(d, x.steps.row(kStep) + a);
      simd::unroll<s>([&](auto t) FOVEA_UNROLLED { met[t] = hn::Mul(met[t], step); });
      simd::unroll<s + 1>([&](auto t) FOVEA_UNROLLED {
        constexpr std::size_t kOther = row_of_visit<kLanes, R>(t);
        const R score = kLanes == Lanes::keys ? x.scores.row(kRow)[kOther] : x.scores.row(kOther)[kRow];
        sum = hn::MulAdd(hn::Set(d, score), met[t], sum);
      });
      hn::StoreU(sum, d, x.sums.row(kRow) + a);
    });
  }
}

#undef FOVEA_UNROLLED

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SCAN_DECAYED_INL_H_
