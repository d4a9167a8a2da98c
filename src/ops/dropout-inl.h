// The factors of a dropout for a stretch of elements.
//
// Include inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_OPS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_DROPOUT_INL_H_
#undef FOVEA_OPS_DROPOUT_INL_H_
#else
#define FOVEA_OPS_DROPOUT_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "hwy/highway.h"
#include "ops/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kCounters = 16, kDraws = 4 * kCounters;

// The words of kDraws elements from element 4 * counter on: philox() of 16 counters.
#if HWY_TARGET == HWY_SCALAR
inline void draw_words(const Keep& keep, std::uint64_t counter, std::uint32_t* HWY_RESTRICT words) {
  for (int i = 0; i < kCounters; ++i) {
    const Philox block = philox(keep.seed, counter + static_cast<std::uint64_t>(i), keep.stream);
    for (int w = 0; w < 4; ++w) words[4 * i + w] = block.word[w];
  }
}
#else
// One counter in each 64-bit lane, its words in the lower halves. The upper halves hold rubbish that the 32-bit
// multiply does not read, so a round is two products, two shifts and four xors; two vectors in flight hide their
// latency. Left to the compiler, the loop above takes twice as long with AVX-512 and is not vectorised at all with
// AVX2.
struct PhiloxLanes {
  static constexpr hn::ScalableTag<std::uint64_t> d64{};
  static constexpr hn::Repartition<std::uint32_t, hn::ScalableTag<std::uint64_t> > d32{};
  using Vector = hn::Vec<decltype(d64)>;

  PhiloxLanes(std::uint64_t counter, std::uint64_t stream)
      : c0(hn::Iota(d64, counter)),
        c1(hn::ShiftRight<32>(c0)),
        c2(hn::Set(d64, stream)),
        c3(hn::Set(d64, stream >> 32)) {}

  HWY_INLINE void round(PhiloxKey key) {
    const Vector p0 = hn::MulEven(hn::BitCast(d32, c0), hn::Set(d32, kPhiloxFactor0));
    const Vector p1 = hn::MulEven(hn::BitCast(d32, c2), hn::Set(d32, kPhiloxFactor1));
    c0 = hn::Xor(hn::ShiftRight<32>(p1), hn::Xor(c1, hn::Set(d64, key.k0)));
    c2 = hn::Xor(hn::ShiftRight<32>(p0), hn::Xor(c3, hn::Set(d64, key.k1)));
    c1 = p1;
    c3 = p0;
  }
  HWY_INLINE void store(std::uint32_t* words) const {
    const Vector low_half = hn::Set(d64, std::uint64_t{0xffffffffu});
    const Vector first = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const Vector second = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(first, second, d64, reinterpret_cast<std::uint64_t*>(words));
  }

  Vector c0, c1, c2, c3;
};

inline void draw_words(const Keep& keep, std::uint64_t counter, std::uint32_t* HWY_RESTRICT words) {
  const std::uint64_t lanes = hn::Lanes(PhiloxLanes::d64);
  for (std::uint64_t i = 0; i < kCounters; i += 2 * lanes) {
    PhiloxLanes a(counter + i, keep.stream), b(counter + i + lanes, keep.stream);
    PhiloxKey key{static_cast<std::uint32_t>(keep.seed), static_cast<std::uint32_t>(keep.seed >> 32)};
    for (int round = 0; round < kPhiloxRounds; ++round, key = key.next()) {
      a.round(key);
      b.round(key);
    }
    a.store(words + 4 * i);
    b.store(words + 4 * (i + lanes));
  }
}
#endif

// factors[i] = scale or 0 for the elements [begin, begin + count).
template <class R>
void dropout_factors(const Keep& keep, std::int64_t begin, std::int64_t count, R* HWY_RESTRICT factors) {
  alignas(64) std::uint32_t words[kDraws];
  const std::uint32_t threshold = keep.threshold;
  const R scale = static_cast<R>(keep.scale);
  std::int64_t skip = begin % 4, done = 0;
  for (auto counter = static_cast<std::uint64_t>(begin / 4); done < count; counter += kCounters, skip = 0) {
    draw_words(keep, counter, words);
    const std::int64_t take = std::min<std::int64_t>(kDraws - skip, count - done);
    for (std::int64_t i = 0; i < take; ++i) factors[done + i] = words[skip + i] >= threshold ? scale : R(0);
    done += take;
  }
}

// The factors of one row after another, drawn several rows at a time; all 1 when nothing is dropped.
template <class R>
class RowFactors {
 public:
  RowFactors(const Keep& keep, std::int64_t width)
      : keep_(keep),
        width_(width),
        batch_(std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, width))),
        factors_(static_cast<std::size_t>((keep.active() ? batch_ : 1) * width), R(1)) {}

  // Rows are asked for in increasing order; no more than `end` will be.
  const R* row(std::int64_t row, std::int64_t end) {
    if (!keep_.active()) return factors_.data();
    if (row >= end_) {
      begin_ = row;
      end_ = std::min(end, row + batch_);
      dropout_factors(keep_, begin_ * width_, (end_ - begin_) * width_, factors_.data());
    }
    return factors_.data() + (row - begin_) * width_;
  }

 private:
  Keep keep_;
  std::int64_t width_, batch_, begin_ = 0, end_ = -1;
  std::vector<R> factors_;
};

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_OPS_DROPOUT_INL_H_
