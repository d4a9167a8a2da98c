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
#include <cstring>
#include <vector>

#include "hwy/highway.h"
#include "ops/dropout.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

// factors[i] = scale or 0 for the elements [begin, begin + count).
template <class R>
void dropout_factors(const Dropout& keep, std::int64_t begin, std::int64_t count, R* HWY_RESTRICT factors) {
  constexpr std::int64_t kDraws = 8 * kPhiloxCounters;
  alignas(64) std::uint32_t words[kDraws / 2];
  alignas(64) std::uint16_t halves[kDraws];
  const std::uint16_t threshold = keep.threshold;
  const R scale = static_cast<R>(keep.scale());
  std::int64_t skip = begin % 8, done = 0;
  for (auto counter = static_cast<std::uint64_t>(begin / 8); done < count; counter += kPhiloxCounters, skip = 0) {
    philox_words({keep.seed, counter, keep.stream}, words);
    std::memcpy(halves, words, sizeof(halves));
    const std::int64_t take = std::min<std::int64_t>(kDraws - skip, count - done);
    for (std::int64_t i = 0; i < take; ++i) factors[done + i] = halves[skip + i] >= threshold ? scale : R(0);
    done += take;
  }
}

// The factors of one row after another, drawn several rows at a time; all 1 when nothing is dropped.
template <class R>
class RowFactors {
 public:
  RowFactors(const Dropout& keep, std::int64_t width)
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
  Dropout keep_;
  std::int64_t width_, batch_, begin_ = 0, end_ = -1;
  std::vector<R> factors_;
};

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_OPS_DROPOUT_INL_H_
