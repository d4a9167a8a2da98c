// The factors of a dropout for a stretch of elements. Philox runs on 16 counters side by side, which the compiler turns
// into vectors.
//
// Include inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_OPS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_DROPOUT_INL_H_
#undef FOVEA_OPS_DROPOUT_INL_H_
#else
#define FOVEA_OPS_DROPOUT_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "ops/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

inline constexpr int kCounters = 16, kDraws = 4 * kCounters;

// The words of kDraws elements from element 4 * counter on.
inline void draw_words(const Keep& keep, std::uint64_t counter, std::uint32_t* HWY_RESTRICT words) {
  for (int i = 0; i < kCounters; ++i) {
    const Philox block = philox(keep.seed, counter + static_cast<std::uint64_t>(i), keep.stream);
    for (int w = 0; w < 4; ++w) words[4 * i + w] = block.word[w];
  }
}

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

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_OPS_DROPOUT_INL_H_
