#pragma once

#include "ops/cpu/features.h"
#include "simd/matrix.h"
#include "simd/product.h"

// What a thread needs besides its rows.
namespace fovea::cpu {

template <class R>
struct FeatureScratch {
  FeatureScratch(const FeatureRows& in, Room room)
      : d(in.x.dim(3)), r(in.count), outputs(in.map == FeatureMap::waves ? 2 * r : r) {
    const std::size_t ld_d = padded<R>(static_cast<std::size_t>(d)), ld_r = padded<R>(static_cast<std::size_t>(r));
    const std::size_t ld_out = padded<R>(static_cast<std::size_t>(outputs));
    Carver carver(room);
    const auto rows = [&](std::size_t ld) { return Matrix<R>{carver.take<R>(kFeatureBlock * ld), ld}; };
    z = rows(ld_d);
    dz = rows(ld_d);
    u = rows(ld_r);
    half_norm = carver.take<R>(kFeatureBlock);
    total = carver.take<R>(kFeatureBlock);
    length = carver.take<R>(kFeatureBlock);
    y = carver.take<R>(ld_out);
    dy = carver.take<R>(ld_out);
    bytes = carver.used();
  }

  std::int64_t d, r, outputs;
  std::size_t bytes;
  Matrix<R> z, dz;                // [rows][d]
  Matrix<R> u;                    // [rows][r]
  R *half_norm, *total, *length;  // [rows]: |z|^2 / 2, sum of da, |x|
  R *y, *dy;                      // [outputs], for types that are not R
};

}  // namespace fovea::cpu
