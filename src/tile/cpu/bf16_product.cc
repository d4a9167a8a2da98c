#include "tile/cpu/bf16_product.h"

#if FOVEA_BF16_PAIRS
#include <immintrin.h>

#include <type_traits>
#include <utility>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
namespace fovea::tile {
namespace {

// The register tile of product-inl.h, with a pair instruction in place of the multiply-add.
constexpr int kTileRows = 8, kTileVectors = 2;
constexpr std::size_t kLanes = 16;
constexpr __mmask16 kAll = 0xffff;  // the maximum without a mask makes GCC 12 warn of its own header (bug 105593)

template <int kCount, class F>
HWY_INLINE void unroll(const F& f) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, kI>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}
#define FOVEA_UNROLLED __attribute__((always_inline))

// What a tile of C starts from, and what happens to it before it is stored.
struct ZeroScaled {
  float scale;
  float* top;  // [n] or null

  HWY_INLINE __m512 start(const float*, std::size_t) const { return _mm512_setzero_ps(); }
  template <int kRows, int kVectors>
  HWY_INLINE void finish(__m512* tile, std::size_t column) const {
    const __m512 factor = _mm512_set1_ps(scale);
    unroll<kRows * kVectors>([&](auto i) FOVEA_UNROLLED { tile[i] = _mm512_mul_ps(tile[i], factor); });
    if (top == nullptr) return;
    unroll<kVectors>([&](auto v) FOVEA_UNROLLED {
      float* slot = top + column + v * kLanes;
      __m512 most = _mm512_loadu_ps(slot);
      unroll<kRows>([&](auto r) FOVEA_UNROLLED { most = _mm512_maskz_max_ps(kAll, most, tile[r * kVectors + v]); });
      _mm512_storeu_ps(slot, most);
    });
  }
};
struct Add {
  HWY_INLINE __m512 start(const float* c, std::size_t) const { return _mm512_loadu_ps(c); }
  template <int kRows, int kVectors>
  HWY_INLINE void finish(__m512*, std::size_t) const {}
};
struct Onto {
  const float* factor;  // [n]
  HWY_INLINE __m512 start(const float* c, std::size_t column) const {
    return _mm512_mul_ps(_mm512_loadu_ps(c), _mm512_loadu_ps(factor + column));
  }
  template <int kRows, int kVectors>
  HWY_INLINE void finish(__m512*, std::size_t) const {}
};

HWY_INLINE __m512bh as_pairs(__m512i x) { return reinterpret_cast<__m512bh>(x); }

// Rows [row, row + kRows) and vectors [column, column + kVectors lanes) of C.
template <int kRows, int kVectors, Order kOrder, class Ends>
HWY_NOINLINE void product_tile(const PairProduct& p, std::size_t row, std::size_t column, const Ends& ends) {
  float* HWY_RESTRICT c = p.c + row * p.ldc + column;
  __m512 tile[kRows * kVectors];
  unroll<kRows>([&](auto r) FOVEA_UNROLLED {
    unroll<kVectors>([&](auto v) FOVEA_UNROLLED {
      tile[r * kVectors + v] = ends.start(c + r * p.ldc + v * kLanes, column + v * kLanes);
    });
  });

  const Bf16Pair* HWY_RESTRICT a = kOrder == Order::rows ? p.a + row * p.lda : p.a + row;
  const Bf16Pair* HWY_RESTRICT b = p.b + column;
  const std::size_t lda = p.lda, ldb = p.ldb;
  for (std::size_t k = p.k; k != 0; --k) {
    __m512bh bv[kVectors];
    unroll<kVectors>([&](auto v) FOVEA_UNROLLED { bv[v] = as_pairs(_mm512_loadu_si512(b + v * kLanes)); });
    unroll<kRows>([&](auto r) FOVEA_UNROLLED {
      const auto pair = static_cast<int>(kOrder == Order::rows ? a[r * lda] : a[r]);
      const __m512bh av = as_pairs(_mm512_set1_epi32(pair));
      unroll<kVectors>(
          [&](auto v) FOVEA_UNROLLED { tile[r * kVectors + v] = _mm512_dpbf16_ps(tile[r * kVectors + v], av, bv[v]); });
    });
    a += kOrder == Order::rows ? 1 : lda;
    b += ldb;
  }

  ends.template finish<kRows, kVectors>(tile, column);
  unroll<kRows>([&](auto r) FOVEA_UNROLLED {
    unroll<kVectors>([&](auto v)
                         FOVEA_UNROLLED { _mm512_storeu_ps(c + r * p.ldc + v * kLanes, tile[r * kVectors + v]); });
  });
}

// All rows of one column panel: full tiles, then tails of 4, 2 and 1 rows.
template <int kVectors, Order kOrder, class Ends>
void product_panel(const PairProduct& p, std::size_t column, const Ends& ends) {
  std::size_t row = 0;
  const auto tiles = [&]<int kRows>() {
    for (; row + kRows <= p.m; row += kRows) {
      if (p.next != nullptr) p.next->some();
      product_tile<kRows, kVectors, kOrder>(p, row, column, ends);
    }
  };
  tiles.template operator()<kTileRows>();
  tiles.template operator()<4>();
  tiles.template operator()<2>();
  tiles.template operator()<1>();
}

template <Order kOrder, class Ends>
void product(const PairProduct& p, const Ends& ends) {
  std::size_t column = 0;
  for (; column + kTileVectors * kLanes <= p.n; column += kTileVectors * kLanes)
    product_panel<kTileVectors, kOrder>(p, column, ends);
  for (; column < p.n; column += kLanes) product_panel<1, kOrder>(p, column, ends);
}

#undef FOVEA_UNROLLED

// The lanes below n.
HWY_INLINE __mmask16 first_lanes(std::size_t n) {
  return static_cast<__mmask16>(n >= kLanes ? 0xffffu : (1u << n) - 1u);
}

}  // namespace

void pair_product_scaled(const PairProduct& p, float scale, float* top) {
  product<Order::rows>(p, ZeroScaled{scale, top});
}

void pair_product_onto(const PairProduct& p, const float* factor) { product<Order::columns>(p, Onto{factor}); }

void pair_product_add(const PairProduct& p, Order order) {
  order == Order::rows ? product<Order::rows>(p, Add{}) : product<Order::columns>(p, Add{});
}

void pair_columns(Matrix<const float> from, Matrix<Bf16Pair> to, std::size_t rows, std::size_t columns) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t c = 0; c < columns; c += 2 * kLanes) {
      const std::size_t left = columns - c;
      const __m512 low = _mm512_maskz_loadu_ps(first_lanes(left), from.row(i) + c);
      const __m512 high = left <= kLanes ? _mm512_setzero_ps()
                                         : _mm512_maskz_loadu_ps(first_lanes(left - kLanes), from.row(i) + c + kLanes);
      const auto pairs = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      _mm512_mask_storeu_epi32(to.row(i) + c / 2, first_lanes(pairs_of(left)), pairs);
    }
}

void pair_rows(Matrix<const float> from, Matrix<Bf16Pair> to, std::size_t rows, std::size_t columns) {
  // The conversion gives one row after the other; this weaves them: 0, 16, 1, 17, ... of 16-bit lanes.
  const __m512i first = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i weave = _mm512_or_si512(first, _mm512_slli_epi32(_mm512_add_epi32(first, _mm512_set1_epi32(16)), 16));
  for (std::size_t i = 0; i < rows; i += 2)
    for (std::size_t c = 0; c < columns; c += kLanes) {
      const __mmask16 lanes = first_lanes(columns - c);
      const __m512 low = _mm512_maskz_loadu_ps(lanes, from.row(i) + c);
      const __m512 high = i + 1 < rows ? _mm512_maskz_loadu_ps(lanes, from.row(i + 1) + c) : _mm512_setzero_ps();
      const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      _mm512_mask_storeu_epi32(to.row(i / 2) + c, lanes, _mm512_permutexvar_epi16(weave, halves));
    }
}

}  // namespace fovea::tile
HWY_POP_ATTRIBUTES

#endif  // FOVEA_BF16_PAIRS
