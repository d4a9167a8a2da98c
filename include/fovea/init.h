#pragma once

#include <cstdint>
#include <string_view>

#include "fovea/context.h"
#include "fovea/tensor.h"

namespace fovea {

// How a weight starts. Element i of a random one is a function of the context's seed, the weight's name and i alone.
struct Init {
  enum class Kind : std::uint8_t {
    zeros,
    ones,
    constant,
    normal,
    uniform,
    features,  // (..., r, d): rows as long as normal ones, orthogonal to each other in blocks of d
  };
  Kind kind = Kind::zeros;
  double size = 0.0;  // the constant; standard deviation of normal and features; bound of uniform

  static Init zeros() { return {Kind::zeros, 0.0}; }
  static Init ones() { return {Kind::ones, 0.0}; }
  static Init constant(double value) { return {Kind::constant, value}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  static Init features(double deviation = 1.0) { return {Kind::features, deviation}; }
  static Init xavier(std::int64_t fan_in, std::int64_t fan_out);  // uniform, variance 2 / (fan_in + fan_out)
};

// A persistent f32 or f64 tensor that starts so. The name is the whole path: "layers.0.attention.qkv.weight".
FOVEA_EXPORT Tensor make_weight(const Context& context, std::string_view name, const Shape& shape, DType dtype,
                                const Init& init);

}  // namespace fovea
