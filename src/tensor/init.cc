#include "fovea/init.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "core/parallel.h"
#include "core/rng.h"

namespace fovea {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

// FNV-1a: the random stream of a weight comes from its name.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

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

template <class T>
void fill(const Context& context, const Tensor& t, const Init& init, std::uint64_t stream) {
  switch (init.kind) {
    case Init::Kind::zeros: return t.fill(0.0);
    case Init::Kind::ones: return t.fill(1.0);
    case Init::Kind::constant: return t.fill(init.size);
    case Init::Kind::normal:
    case Init::Kind::uniform: return fill_random<T>(context, t, init, stream);
    case Init::Kind::features: return fill_features<T>(context, t, init, stream);
  }
}

}  // namespace

Init Init::xavier(std::int64_t fan_in, std::int64_t fan_out) {
  return {Kind::uniform, std::sqrt(6.0 / static_cast<double>(fan_in + fan_out))};
}

Tensor make_weight(const Context& context, std::string_view name, const Shape& shape, DType dtype, const Init& init) {
  const Tensor value = Tensor::empty(context, shape, dtype, Lifetime::persistent);
  if (dtype == DType::f64)
    fill<double>(context, value, init, stream_of(name));
  else
    fill<float>(context, value, init, stream_of(name));
  return value;
}

}  // namespace fovea
