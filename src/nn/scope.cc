#include "nn/scope.h"

#include <cmath>
#include <numbers>

#include "core/parallel.h"
#include "core/rng.h"

namespace fovea::nn {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

// FNV-1a: the random stream of a parameter comes from its name.
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

// Element i is a function of (seed, name, i) alone.
template <class T>
void fill_random(const Context& context, const Tensor& t, const Init& init, std::uint64_t stream) {
  T* values = t.data<T>();
  parallel_ranges(context, t.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[i] = static_cast<T>(draw(init, philox(context.seed(), static_cast<std::uint64_t>(i), stream)));
  });
}

}  // namespace

Init Init::xavier(std::int64_t fan_in, std::int64_t fan_out) {
  return {Kind::uniform, std::sqrt(6.0 / static_cast<double>(fan_in + fan_out))};
}

Scope Scope::operator/(std::string_view name) const {
  Scope inner = *this;
  if (!inner.prefix_.empty()) inner.prefix_ += '.';
  inner.prefix_ += name;
  return inner;
}

Var Scope::add(std::string_view name, const Shape& shape, Init init, bool decay) const {
  const std::string full = (*this / name).prefix_;
  const Tensor value = Tensor::empty(*context_, shape, dtype_, Lifetime::persistent);
  switch (init.kind) {
    case Init::Kind::zeros: value.fill(0.0); break;
    case Init::Kind::ones: value.fill(1.0); break;
    case Init::Kind::normal:
    case Init::Kind::uniform:
      if (dtype_ == DType::f64)
        fill_random<double>(*context_, value, init, stream_of(full));
      else
        fill_random<float>(*context_, value, init, stream_of(full));
  }
  parameters_->push_back({full, Var::leaf(value), decay});
  return parameters_->back().var;
}

}  // namespace fovea::nn
