#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/isa.h"
#include "support/draws.h"

namespace fovea::testing {

// A context whose fresh memory is all NaN: what an operation forgets to write shows.
inline Context poisoned(int threads = 2) {
  ContextOptions options;
  options.threads = threads;
  options.seed = 7;
  options.memory.poison = true;
  return Context(options);
}

// Normal values times `scale`, the same for every dtype up to its rounding.
inline Tensor random(const Context& context, const Shape& shape, std::uint64_t seed, DType dtype = DType::f64,
                     double scale = 1.0) {
  Random draws(seed, 0x7e57);
  return random(context, shape, draws, dtype, scale);
}

inline Tensor integers(const Context& context, const Shape& shape, const std::vector<std::int32_t>& values) {
  return Tensor::from<std::int32_t>(context, shape, values);
}

// Machine epsilon of a dtype: the yardstick of its tolerances.
inline double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    default: return 0x1p-7;
  }
}

// max |a - b| / max |b|; infinite where one has a NaN and the other has not.
inline double relative_error(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return INFINITY;
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || std::isnan(y[i])) return INFINITY;
    if (x[i] == y[i]) continue;  // equal infinities too
    worst = std::max(worst, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return worst == 0.0 ? 0.0 : worst / std::max(largest, 1e-30);
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (!a.is_contiguous() || !b.is_contiguous()) return false;
  return a.numel() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

// Runs body(isa) on every instruction set of this machine, and leaves the best one chosen.
template <class Body>
void on_every_isa(Body&& body) {
  for (Isa isa : available_isas()) {
    force_isa(isa);
    SCOPED_TRACE(std::string(name_of(isa)));
    body(isa);
  }
  force_isa(available_isas().back());
}

}  // namespace fovea::testing
