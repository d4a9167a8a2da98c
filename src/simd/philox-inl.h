// Philox of many counters at once, compiled once per instruction set.
//
// Include inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_SIMD_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SIMD_PHILOX_INL_H_
#undef FOVEA_SIMD_PHILOX_INL_H_
#else
#define FOVEA_SIMD_PHILOX_INL_H_
#endif

#include <cstdint>

#include "core/rng.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kPhiloxCounters = 16;

// philox(key, counter + i step, high) for i in [0, kPhiloxCounters).
struct PhiloxRun {
  std::uint64_t key, counter, high;
  std::uint32_t step = 1;

  std::uint64_t at(int i) const { return counter + static_cast<std::uint64_t>(i) * step; }
};

#if HWY_TARGET == HWY_SCALAR
// words[4 i + w]: word w of counter i.
inline void philox_words(const PhiloxRun& run, std::uint32_t* HWY_RESTRICT words) {
  for (int i = 0; i < kPhiloxCounters; ++i) {
    const Philox block = philox(run.key, run.at(i), run.high);
    for (int w = 0; w < 4; ++w) words[4 * i + w] = block.word[w];
  }
}

// words[kPhiloxCounters w + i]: word w of counter i.
inline void philox_planes(const PhiloxRun& run, std::uint32_t* HWY_RESTRICT words) {
  for (int i = 0; i < kPhiloxCounters; ++i) {
    const Philox block = philox(run.key, run.at(i), run.high);
    for (int w = 0; w < 4; ++w) words[kPhiloxCounters * w + i] = block.word[w];
  }
}
#else
// One counter in each 64-bit lane, its words in the lower halves. The upper halves hold rubbish that the 32-bit
// multiply does not read, so a round is two products, two shifts and four xors; two vectors in flight hide their
// latency. Left to the compiler, the loops above take twice as long with AVX-512 and are not vectorised at all with
// AVX2.
struct PhiloxLanes {
  static constexpr hn::ScalableTag<std::uint64_t> d64{};
  static constexpr hn::Repartition<std::uint32_t, hn::ScalableTag<std::uint64_t> > d32{};
  static constexpr hn::Rebind<std::uint32_t, hn::ScalableTag<std::uint64_t> > d_half{};
  using Vector = hn::Vec<decltype(d64)>;

  PhiloxLanes(std::uint64_t counter, Vector offsets, std::uint64_t high)
      : c0(hn::Add(hn::Set(d64, counter), offsets)),
        c1(hn::ShiftRight<32>(c0)),
        c2(hn::Set(d64, high)),
        c3(hn::Set(d64, high >> 32)) {}

  HWY_INLINE void round(PhiloxKey key) {
    const Vector p0 = hn::MulEven(hn::BitCast(d32, c0), hn::Set(d32, kPhiloxFactor0));
    const Vector p1 = hn::MulEven(hn::BitCast(d32, c2), hn::Set(d32, kPhiloxFactor1));
    c0 = hn::Xor(hn::ShiftRight<32>(p1), hn::Xor(c1, hn::Set(d64, key.k0)));
    c2 = hn::Xor(hn::ShiftRight<32>(p0), hn::Xor(c3, hn::Set(d64, key.k1)));
    c1 = p1;
    c3 = p0;
  }
  HWY_INLINE void store_words(std::uint32_t* words) const {
    const Vector low_half = hn::Set(d64, std::uint64_t{0xffffffffu});
    const Vector first = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const Vector second = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(first, second, d64, reinterpret_cast<std::uint64_t*>(words));
  }
  HWY_INLINE void store_planes(std::uint32_t* words) const {
    hn::StoreU(hn::TruncateTo(d_half, c0), d_half, words);
    hn::StoreU(hn::TruncateTo(d_half, c1), d_half, words + kPhiloxCounters);
    hn::StoreU(hn::TruncateTo(d_half, c2), d_half, words + 2 * kPhiloxCounters);
    hn::StoreU(hn::TruncateTo(d_half, c3), d_half, words + 3 * kPhiloxCounters);
  }

  Vector c0, c1, c2, c3;
};

// store(lanes, i): the counters from i on are through.
template <class Store>
HWY_INLINE void philox_run(const PhiloxRun& run, const Store& store) {
  const auto lanes = static_cast<int>(hn::Lanes(PhiloxLanes::d64));
  const auto offsets =
      hn::MulEven(hn::BitCast(PhiloxLanes::d32, hn::Iota(PhiloxLanes::d64, 0)), hn::Set(PhiloxLanes::d32, run.step));
  for (int i = 0; i < kPhiloxCounters; i += 2 * lanes) {
    PhiloxLanes a(run.at(i), offsets, run.high), b(run.at(i + lanes), offsets, run.high);
    PhiloxKey key{static_cast<std::uint32_t>(run.key), static_cast<std::uint32_t>(run.key >> 32)};
    for (int round = 0; round < kPhiloxRounds; ++round, key = key.next()) {
      a.round(key);
      b.round(key);
    }
    store(a, i);
    store(b, i + lanes);
  }
}

inline void philox_words(const PhiloxRun& run, std::uint32_t* HWY_RESTRICT words) {
  philox_run(run, [words](const PhiloxLanes& lanes, int i) HWY_ATTR { lanes.store_words(words + 4 * i); });
}
inline void philox_planes(const PhiloxRun& run, std::uint32_t* HWY_RESTRICT words) {
  philox_run(run, [words](const PhiloxLanes& lanes, int i) HWY_ATTR { lanes.store_planes(words + i); });
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SIMD_PHILOX_INL_H_
