#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/model.h"

namespace fovea::nn {

// How a parameter starts.
struct Init {
  enum class Kind : std::uint8_t { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;
  double size = 0.0;  // standard deviation of normal; bound of uniform

  static Init zeros() { return {Kind::zeros, 0.0}; }
  static Init ones() { return {Kind::ones, 0.0}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  static Init xavier(std::int64_t fan_in, std::int64_t fan_out);  // uniform, variance 2 / (fan_in + fan_out)
};

// A place in the tree of names that layers are built at. Adding a parameter here is the only way to make one, so every
// layer's names, shapes and initial values stand in its constructor, once.
class Scope {
 public:
  Scope(Context& context, DType dtype, std::vector<Parameter>& parameters)
      : context_(&context), dtype_(dtype), parameters_(&parameters) {}

  Scope operator/(std::string_view name) const;  // one level down
  Scope operator/(std::int64_t index) const { return *this / std::to_string(index); }
  Context& context() const { return *context_; }

  Var add(std::string_view name, const Shape& shape, Init init, bool decay = false) const;

 private:
  Context* context_;
  DType dtype_;
  std::vector<Parameter>* parameters_;
  std::string prefix_;
};

// Runs f; an error from inside gets `place` put before its path: "attention" -> "layers[1].attention".
template <class F>
decltype(auto) within(std::string_view place, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw e.inside(std::string(place));
  }
}

}  // namespace fovea::nn
