// Moving rows between the caller's arrays (any dtype, any row stride) and packed scratch of the accumulation type.

#if defined(FOVEA_TILE_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_ROWS_INL_H_
#undef FOVEA_TILE_CPU_ROWS_INL_H_
#else
#define FOVEA_TILE_CPU_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "fovea/dtype.h"
#include "hwy/highway.h"
#include "tile/cpu/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of `width` elements, `stride` elements apart, in the caller's memory.
template <class Pointer>
struct Rows {
  Pointer data;
  DType dtype;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t width;
};

// Calls f with the storage types whose accumulation type is R.
template <class R, class F>
decltype(auto) visit_storage(DType dtype, F&& f) {
  if constexpr (std::is_same_v<R, double>) {
    return f.template operator()<double>();
  } else {
    switch (dtype) {
      case DType::bf16: return f.template operator()<bf16>();
      case DType::f16: return f.template operator()<f16>();
      default: return f.template operator()<float>();
    }
  }
}

// target[c] = scale * source[c]
template <class R, class T>
HWY_INLINE void load_row(const T* HWY_RESTRICT source, R scale, std::int64_t width, R* HWY_RESTRICT target) {
  for (std::int64_t c = 0; c < width; ++c) target[c] = scale * static_cast<R>(source[c]);
}

// to[i][0 .. ld) = scale * from[i], zero beyond the width. Returns whether every element is finite.
template <class R>
HWY_NOINLINE bool load_rows(const Rows<const void*>& from, R scale, R* HWY_RESTRICT to, std::int64_t ld) {
  return visit_storage<R>(from.dtype, [&]<class T>() {
    const hn::ScalableTag<R> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto factor = hn::Set(d, scale);
    auto strange = hn::Zero(d);  // gathers x - x, which is NaN for what is not finite
    R strange_tail = 0;
    for (std::int64_t i = 0; i < from.count; ++i) {
      const T* HWY_RESTRICT source = static_cast<const T*>(from.data) + i * from.stride;
      R* HWY_RESTRICT target = to + i * ld;
      std::int64_t c = 0;
      if constexpr (std::is_same_v<R, T>) {
        for (; c + lanes <= from.width; c += lanes) {
          const auto x = hn::LoadU(d, source + c);
          strange = hn::Or(strange, hn::Sub(x, x));
          hn::StoreU(hn::Mul(x, factor), d, target + c);
        }
      } else {
        load_row(source, scale, from.width, target);  // the compiler vectorises the conversion
        for (; c + lanes <= from.width; c += lanes) {
          const auto x = hn::LoadU(d, target + c);
          strange = hn::Or(strange, hn::Sub(x, x));
        }
      }
      for (; c < from.width; ++c) {
        target[c] = scale * static_cast<R>(source[c]);
        strange_tail += 0 * target[c];
      }
      for (; c < ld; ++c) target[c] = 0;
    }
    return strange_tail == 0 && hn::AllTrue(d, hn::Eq(strange, strange));
  });
}

// to[i] = scale * from[i][0 .. width)
template <class R>
HWY_NOINLINE void store_rows(const R* HWY_RESTRICT from, std::int64_t ld, R scale, const Rows<void*>& to,
                             tile::StoreMode stores) {
  visit_storage<R>(to.dtype, [&]<class T>() {
    const hn::ScalableTag<R> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto factor = hn::Set(d, scale);
    const bool aligned = reinterpret_cast<std::uintptr_t>(to.data) % 64 == 0 && to.stride * sizeof(T) % 64 == 0;
    for (std::int64_t i = 0; i < to.count; ++i) {
      const R* HWY_RESTRICT source = from + i * ld;
      T* HWY_RESTRICT target = static_cast<T*>(to.data) + i * to.stride;
      std::int64_t c = 0;
      if constexpr (std::is_same_v<R, T>)
        if (stores == tile::StoreMode::streamed && aligned)
          for (; c + lanes <= to.width; c += lanes)
            hn::Stream(hn::Mul(hn::LoadU(d, source + c), factor), d, target + c);
      for (; c < to.width; ++c) target[c] = static_cast<T>(scale * source[c]);
    }
  });
}

// x -= what a dtype keeps of it
template <class R>
HWY_NOINLINE void leave_rest(DType dtype, R* HWY_RESTRICT x, std::int64_t count) {
  visit_storage<R>(dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < count; ++i) x[i] -= static_cast<R>(static_cast<T>(x[i]));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_ROWS_INL_H_
