// The register-blocked product of both engines, compiled once per instruction set:
//
//   C[m x n] = start(C) + A[m x k] B[k x n]
//
// Elements of A are broadcast (read by rows or by columns), rows of B and C are vectors. A tile of C stays in registers
// over the whole of k. The micro-kernels are out of line on purpose: inlined into their callers, the same source ran
// anywhere between 78 and 93% of the rate of a GEMM, out of line it is always at 94%.
//
// Include after hwy/highway.h, inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_SIMD_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SIMD_PRODUCT_INL_H_
#undef FOVEA_SIMD_PRODUCT_INL_H_
#else
#define FOVEA_SIMD_PRODUCT_INL_H_
#endif

#include <cstddef>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"
#include "simd/product.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows and vectors of a register tile. Zen 4 and Skylake-X: 8x2 uses 16 accumulators of 32 registers; 6x2 uses 12
// of 16.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kTileRows = 8, kTileVectors = 2;
#elif HWY_TARGET == HWY_SCALAR
inline constexpr int kTileRows = 4, kTileVectors = 4;
#else
inline constexpr int kTileRows = 6, kTileVectors = 2;
#endif

// f(0), f(1), ... with constant arguments. Register tiles are arrays, and only indices that are constant from the start
// keep them in registers: with loops the compiler spilled every tile once before and once after the product (7%).
template <class F, int... kI>
HWY_INLINE void unroll_over(const F& f, std::integer_sequence<int, kI...>) {
  (f(std::integral_constant<int, kI>()), ...);
}
template <int kCount, class F>
HWY_INLINE void unroll(const F& f) {
  unroll_over(f, std::make_integer_sequence<int, kCount>());
}
#define FOVEA_UNROLLED __attribute__((always_inline))

// What a tile of C starts from ...
struct StartZero {
  template <class D, class T>
  HWY_INLINE hn::Vec<D> operator()(D d, const T*, std::size_t) const {
    return hn::Zero(d);
  }
};
struct StartAdd {
  template <class D, class T>
  HWY_INLINE hn::Vec<D> operator()(D d, const T* c, std::size_t) const {
    return hn::LoadU(d, c);
  }
};
// ... C times a factor of its column: the rescaled output of online softmax.
template <class T>
struct StartScaled {
  const T* factor;  // [n]
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const T* c, std::size_t column) const {
    return hn::Mul(hn::LoadU(d, c), hn::LoadU(d, factor + column));
  }
};

// What happens to a finished tile besides being stored. `tile` holds kRows x kVectors vectors, row by row.
struct FinishStore {
  template <int kRows, int kVectors, class D, class V>
  HWY_INLINE void operator()(D, const V*, std::size_t) const {}
};
// Keeps the maximum of each column.
template <class T>
struct FinishTop {
  T* top;  // [n], in and out
  template <int kRows, int kVectors, class D, class V>
  HWY_INLINE void operator()(D d, const V* tile, std::size_t column) const {
    unroll<kVectors>([&](auto v) FOVEA_UNROLLED {
      T* slot = top + column + v * hn::Lanes(d);
      V most = hn::LoadU(d, slot);
      unroll<kRows>([&](auto r) FOVEA_UNROLLED { most = hn::Max(most, tile[r * kVectors + v]); });
      hn::StoreU(most, d, slot);
    });
  }
};

// One register tile: rows [row, row + kRows) and vectors [column, column + kVectors lanes) of C.
template <int kRows, int kVectors, Order kOrder, class T, class Start, class Finish>
HWY_NOINLINE void product_tile(const Product<T>& p, std::size_t row, std::size_t column, const Start& start,
                               const Finish& finish) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  T* HWY_RESTRICT c = p.c + row * p.ldc + column;
  V tile[kRows * kVectors];
  unroll<kRows>([&](auto r) FOVEA_UNROLLED {
    unroll<kVectors>([&](auto v) FOVEA_UNROLLED {
      tile[r * kVectors + v] = start(d, c + r * p.ldc + v * lanes, column + v * lanes);
    });
  });

  const T* HWY_RESTRICT a = kOrder == Order::rows ? p.a + row * p.lda : p.a + row;
  const T* HWY_RESTRICT b = p.b + column;
  const std::size_t lda = p.lda, ldb = p.ldb;
  for (std::size_t k = p.k; k != 0; --k) {
    V bv[kVectors];
    unroll<kVectors>([&](auto v) FOVEA_UNROLLED { bv[v] = hn::LoadU(d, b + v * lanes); });
    unroll<kRows>([&](auto r) FOVEA_UNROLLED {
      const V av = hn::Set(d, kOrder == Order::rows ? a[r * lda] : a[r]);
      unroll<kVectors>([&](auto v)
                           FOVEA_UNROLLED { tile[r * kVectors + v] = hn::MulAdd(av, bv[v], tile[r * kVectors + v]); });
    });
    a += kOrder == Order::rows ? 1 : lda;
    b += ldb;
  }

  finish.template operator()<kRows, kVectors>(d, tile, column);
  unroll<kRows>([&](auto r) FOVEA_UNROLLED {
    unroll<kVectors>([&](auto v) FOVEA_UNROLLED { hn::StoreU(tile[r * kVectors + v], d, c + r * p.ldc + v * lanes); });
  });
}

// All rows of one column panel: full tiles, then tails of 4, 2 and 1 rows.
template <int kVectors, Order kOrder, class T, class Start, class Finish>
void product_panel(const Product<T>& p, std::size_t column, const Start& start, const Finish& finish) {
  std::size_t row = 0;
  const auto tiles = [&]<int kRows>() {
    for (; row + kRows <= p.m; row += kRows) {
      if (p.next != nullptr) p.next->some();
      product_tile<kRows, kVectors, kOrder>(p, row, column, start, finish);
    }
  };
  tiles.template operator()<kTileRows>();
  if constexpr (kTileRows > 4) tiles.template operator()<4>();
  tiles.template operator()<2>();
  tiles.template operator()<1>();
}

template <Order kOrder, class T, class Start, class Finish = FinishStore>
void product(const Product<T>& p, const Start& start, const Finish& finish = {}) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  std::size_t column = 0;
  for (; column + kTileVectors * lanes <= p.n; column += kTileVectors * lanes)
    product_panel<kTileVectors, kOrder>(p, column, start, finish);
  for (; column < p.n; column += lanes) product_panel<1, kOrder>(p, column, start, finish);
}

#undef FOVEA_UNROLLED

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SIMD_PRODUCT_INL_H_
