#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/matrix.h"
#include "simd/product.h"

// Products of bf16 pairs with f32 sums (AVX512-BF16), which run at twice the rate of f32, and the roundings that make
// pairs. Only for machines that have the instructions: see use_avx512_bf16(). They read and give denormals as zeros.
#if defined(__x86_64__)
#define FOVEA_BF16_PAIRS 1
#else
#define FOVEA_BF16_PAIRS 0
#endif

namespace fovea::tile {

// Two bf16 values that are neighbours along the axis a product sums over; the first is in the low half.
using Bf16Pair = std::uint32_t;

// Pairs that hold n values; the last one of an odd n ends with a zero.
constexpr std::size_t pairs_of(std::size_t n) { return (n + 1) / 2; }

// C (+)= A B in elements of pairs: k counts pairs.
using PairProduct = Product<float, Bf16Pair>;

// C = scale A B, A by rows. Each column's maximum goes into top[n] unless it is null.
void pair_product_scaled(const PairProduct& p, float scale, float* top);
// C = C factor[column] + A B, A by columns.
void pair_product_onto(const PairProduct& p, const float* factor);
// C += A B
void pair_product_add(const PairProduct& p, Order order);

// Rounds a matrix of f32 to pairs along its rows: to[i][c / 2] holds columns c and c + 1. Nothing is written beyond
// pairs_of(columns) pairs of a row.
void pair_columns(Matrix<const float> from, Matrix<Bf16Pair> to, std::size_t rows, std::size_t columns);
// ... along its columns: to[i / 2][c] holds rows i and i + 1.
void pair_rows(Matrix<const float> from, Matrix<Bf16Pair> to, std::size_t rows, std::size_t columns);

}  // namespace fovea::tile
