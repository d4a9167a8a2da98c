#include "tensor/init_kernels.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "core/parallel.h"
#include "core/rng.h"

namespace fovea {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

// Uniform in [0, 1) with 53 bits.
double uniform53(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
}

double draw(const Init& init, const Philox& random) {
  const double u = uniform53(random.word[0], random.word[1]);
  if (init.kind == Init::Kind::uniform) return init.size * (2.0 * u - 1.0);
  const double angle = 2.0 * std::numbers::pi * uniform53(random.word[2], random.word[3]);
  return init.size * std::sqrt(-2.0 * std::log(1.0 - u)) * std::cos(angle);
}

template <class T>
void fill_random(const Context& context, const Tensor& t, const Init& init, std::uint64_t stream) {
  T* values = t.data<T>();
  parallel_ranges(context, t.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[i] = static_cast<T>(draw(init, philox(context.seed(), static_cast<std::uint64_t>(i), stream)));
  });
}

// Makes `count` rows of length d orthogonal to each other, keeping their lengths. Twice is enough for 15 digits.
void make_orthogonal(double* rows, std::int64_t count, std::int64_t d) {
  const auto dot = [d](const double* a, const double* b) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < d; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (std::int64_t r = 0; r < count; ++r) {
    double* row = rows + r * d;
    const double length = std::sqrt(dot(row, row));
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t before = 0; before < r; ++before) {
        const double* other = rows + before * d;
        const double share = dot(row, other) / dot(other, other);
        for (std::int64_t i = 0; i < d; ++i) row[i] -= share * other[i];
      }
    const double factor = length / std::sqrt(dot(row, row));
    for (std::int64_t i = 0; i < d; ++i) row[i] *= factor;
  }
}

template <class T>
void fill_features(const Context& context, const Tensor& t, const Init& init, std::uint64_t stream) {
  fill_random<T>(context, t, init, stream);
  const std::int64_t d = t.dim(-1), r = t.dim(-2);
  T* values = t.data<T>();
  parallel_for(context, d == 0 || r == 0 ? 0 : t.numel() / (r * d), [&](std::int64_t matrix) {
    std::vector<double> block(static_cast<std::size_t>(d * d));
    for (std::int64_t first = 0; first < r; first += d) {
      const std::int64_t count = std::min(d, r - first);
      T* rows = values + (matrix * r + first) * d;
      std::copy_n(rows, count * d, block.begin());
      make_orthogonal(block.data(), count, d);
      for (std::int64_t i = 0; i < count * d; ++i) rows[i] = static_cast<T>(block[static_cast<std::size_t>(i)]);
    }
  });
}

}  // namespace

template <>
void kernels::draw<Device::cpu>(const Context& context, const DrawnWeights& io) {
  const auto draw = [&]<class T>() {
    if (io.init.kind == Init::Kind::features)
      fill_features<T>(context, io.to, io.init, io.stream);
    else
      fill_random<T>(context, io.to, io.init, io.stream);
  };
  if (io.to.dtype() == DType::f64)
    draw.template operator()<double>();
  else
    draw.template operator()<float>();
}

}  // namespace fovea
