// What the products of the kernels multiply: numbers as they are, or pairs of bf16. The kernels are written once, over
// one of these (M); scores, weights, statistics and sums are of type Real in both.
//
// An element holds `kValues` neighbours along the axis a product sums over. Where that axis runs along the rows of a
// matrix, pairs are its rows as they are; where it runs down the columns, two rows are woven into one.

#if defined(FOVEA_TILE_CPU_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_OPERANDS_INL_H_
#undef FOVEA_TILE_CPU_OPERANDS_INL_H_
#else
#define FOVEA_TILE_CPU_OPERANDS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "simd/product-inl.h"
#include "tile/cpu/bf16_product.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/rows-inl.h"
#include "tile/cpu/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

template <class R>
struct Plain {
  using Real = R;
  using Element = R;
  static constexpr std::int64_t kValues = 1;
  static constexpr bool kPaired = false;

  // The scale of the scores is multiplied into the queries.
  static R operand_scale(R scale) { return scale; }
  static R product_scale(R) { return R{1}; }

  // to[i][0 .. ld) = scale from[i], zero beyond the width. Returns whether every element is finite.
  static bool load(const Rows<const void*>& from, R scale, R* to, std::int64_t ld) {
    return load_rows<R>(from, scale, to, ld);
  }
  static bool load_woven(const Rows<const void*>& from, R* to, std::int64_t ld) {
    return load_rows<R>(from, R{1}, to, ld);
  }

  // C = A B, and the maxima of its columns if `top` is not null
  static void score(const Product<R>& p, R, R* top) {
    top != nullptr ? product<Order::rows>(p, StartZero(), FinishTop<R>{top}) : product<Order::rows>(p, StartZero());
  }
  // C = C factor + A B
  static void add_onto(const Product<R>& p, const R* factor) { product<Order::columns>(p, StartScaled<R>{factor}); }
  // C += A B
  template <Order kOrder>
  static void add(const Product<R>& p) {
    product<kOrder>(p, StartAdd());
  }
};

template <class M>
constexpr std::int64_t elements(std::int64_t values) {
  return (values + M::kValues - 1) / M::kValues;
}

#if FOVEA_BF16_PAIRS && HWY_TARGET <= HWY_AVX3

struct Bf16Pairs {
  using Real = float;
  using Element = Bf16Pair;
  static constexpr std::int64_t kValues = 2;
  static constexpr bool kPaired = true;

  // Queries stay as they are, since scaled ones would have to be rounded again: products are scaled instead.
  static float operand_scale(float) { return 1.0f; }
  static float product_scale(float scale) { return scale; }

  // to[i][0 .. ld) = from[i], zero beyond the width. Returns whether every element is finite.
  HWY_NOINLINE static bool load(const Rows<const void*>& from, float, Bf16Pair* to, std::int64_t ld) {
    std::uint16_t largest = 0;
    for (std::int64_t i = 0; i < from.count; ++i) {
      const std::uint16_t* source = row(from, i);
      auto* target = reinterpret_cast<char*>(to + i * ld);
      const std::int64_t bytes = from.width * 2;
      std::copy_n(reinterpret_cast<const char*>(source), bytes, target);
      std::fill_n(target + bytes, ld * 4 - bytes, char{0});
      largest = std::max(largest, largest_magnitude(source, from.width));
    }
    return largest < kInfinityBits;
  }

  // to[i / 2][0 .. ld): rows i and i + 1 woven.
  HWY_NOINLINE static bool load_woven(const Rows<const void*>& from, Bf16Pair* to, std::int64_t ld) {
    std::uint16_t largest = 0;
    for (std::int64_t i = 0; i < from.count; i += 2, to += ld) {
      const bool last = i + 1 == from.count;
      weave(row(from, i), row(from, last ? i : i + 1), last ? 0u : 0xffffu, from.width, to);
      std::fill_n(to + from.width, ld - from.width, Bf16Pair{0});
      largest = std::max(largest, largest_magnitude(row(from, i), from.width));
      if (!last) largest = std::max(largest, largest_magnitude(row(from, i + 1), from.width));
    }
    return largest < kInfinityBits;
  }

  static void score(const PairProduct& p, float scale, float* top) { pair_product_scaled(p, scale, top); }
  static void add_onto(const PairProduct& p, const float* factor) { pair_product_onto(p, factor); }
  template <Order kOrder>
  static void add(const PairProduct& p) {
    pair_product_add(p, kOrder);
  }

 private:
  static constexpr std::uint16_t kInfinityBits = 0x7f80;

  static const std::uint16_t* row(const Rows<const void*>& from, std::int64_t i) {
    return static_cast<const std::uint16_t*>(from.data) + i * from.stride;
  }
  static std::uint16_t largest_magnitude(const std::uint16_t* HWY_RESTRICT bits, std::int64_t width) {
    std::uint16_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (std::int64_t c = 0; c < width; ++c) largest = std::max(largest, static_cast<std::uint16_t>(bits[c] & 0x7fffu));
    return largest;
  }
  static void weave(const std::uint16_t* HWY_RESTRICT low, const std::uint16_t* HWY_RESTRICT high, std::uint32_t keep,
                    std::int64_t width, Bf16Pair* HWY_RESTRICT to) {
    for (std::int64_t c = 0; c < width; ++c) to[c] = low[c] | (high[c] & keep) << 16;
  }
};

#endif  // FOVEA_BF16_PAIRS

// One of the values of an element.
template <class R>
R value_of(R element, std::int64_t) {
  return element;
}
inline float value_of(Bf16Pair pair, std::int64_t i) {
  return std::bit_cast<float>(i == 0 ? pair << 16 : pair & 0xffff0000u);
}

// C += A B where a zero weight hides what it meets, infinities and NaN included: the slow form of the product, for
// blocks in which hidden pairs meet such values. The weights are A or B. Adds the second value of a pair before the
// first, as the instruction does: what is not hidden has the same bits as in the fast form.
template <class M>
HWY_NOINLINE void product_hiding(const Product<typename M::Real, typename M::Element>& p, Order order,
                                 bool weights_are_b) {
  using R = typename M::Real;
  for (std::size_t i = 0; i < p.m; ++i)
    for (std::size_t x = 0; x < p.k; ++x)
      for (std::int64_t part = M::kValues - 1; part >= 0; --part) {
        const R a = value_of(order == Order::rows ? p.a[i * p.lda + x] : p.a[x * p.lda + i], part);
        if (!weights_are_b && a == 0) continue;
        const auto* HWY_RESTRICT b = p.b + x * p.ldb;
        R* HWY_RESTRICT c = p.c + i * p.ldc;
        for (std::size_t j = 0; j < p.n; ++j) {
          const R value = value_of(b[j], part);
          c[j] = weights_are_b && value == 0 ? c[j] : c[j] + a * value;
        }
      }
}

// Rounds a tile [rows x columns] of weights to elements: along its rows, or two of them woven. Without pairs the tile
// is its own operand.
template <class M>
void round_along(Rectangle<const typename M::Real> from, Rectangle<typename M::Element> to, std::int64_t rows,
                 std::int64_t columns) {
  if constexpr (M::kPaired)
    pair_columns({from.data, static_cast<std::size_t>(from.ld)}, {to.data, static_cast<std::size_t>(to.ld)},
                 static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
}
template <class M>
void round_woven(Rectangle<const typename M::Real> from, Rectangle<typename M::Element> to, std::int64_t rows,
                 std::int64_t columns) {
  if constexpr (M::kPaired)
    pair_rows({from.data, static_cast<std::size_t>(from.ld)}, {to.data, static_cast<std::size_t>(to.ld)},
              static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
}

// The kernel of a problem from a table with one entry per kind of numbers.
template <template <class M> class Table>
const auto* choose(Numbers numbers) {
#if FOVEA_BF16_PAIRS && HWY_TARGET <= HWY_AVX3
  if (numbers == Numbers::bf16_pairs) return &Table<Bf16Pairs>::kKernel;
#endif
  return numbers == Numbers::f64 ? &Table<Plain<double>>::kKernel : &Table<Plain<float>>::kKernel;
}

// The same where all numbers are converted to one of two types.
template <template <class R> class Table>
const auto* choose_type(bool is_double) {
  return is_double ? &Table<double>::kKernel : &Table<float>::kKernel;
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_OPERANDS_INL_H_
