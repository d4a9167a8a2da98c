#pragma once

#include "ops/cpu/features.h"
#include "simd/matrix.h"
#include "simd/product.h"

// What a thread needs besides its rows.
namespace fovea::cpu {

// Rows that are multiplied at a time: 32 of 256 features are 32 KB.
inline constexpr std::int64_t kFeatureBlock = 32;
inline constexpr double kUnitEps = 1e-3;

template <class R>
struct FeatureScratch {
  FeatureScratch(const FeatureRows& in, R* data)
      : d(in.x.dim(3)), r(in.count), outputs(in.map == FeatureMap::waves ? 2 * r : r) {
    const std::size_t ld_d = padded<R>(static_cast<std::size_t>(d)), ld_r = padded<R>(static_cast<std::size_t>(r));
    const std::size_t ld_out = padded<R>(static_cast<std::size_t>(outputs));
    const auto take = [&](std::size_t count) {
      R* taken = data == nullptr ? nullptr : data + used;
      used += count;
      return taken;
    };
    z = {take(kFeatureBlock * ld_d), ld_d};
    dz = {take(kFeatureBlock * ld_d), ld_d};
    u = {take(kFeatureBlock * ld_r), ld_r};
    half_norm = take(kFeatureBlock);
    total = take(kFeatureBlock);
    length = take(kFeatureBlock);
    y = take(ld_out);
    dy = take(ld_out);
  }

  std::int64_t d, r, outputs;
  std::size_t used = 0;
  Matrix<R> z, dz;                // [rows][d]
  Matrix<R> u;                    // [rows][r]
  R *half_norm, *total, *length;  // [rows]: |z|^2 / 2, sum of da, |x|
  R *y, *dy;                      // [outputs], for types that are not R
};

}  // namespace fovea::cpu
