#pragma once

#include <string>
#include <vector>

#include "core/rng.h"
#include "fovea/optim.h"

// Parameters of their own, with values and gradients at will.
namespace fovea::testing {

inline Context poisoned(int threads = 2) { return Context({.threads = threads, .memory = {.poison = true}}); }

template <class T>
Parameter parameter(Context& context, const std::string& name, const std::vector<T>& values, bool decay = false) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {name, Var::leaf(Tensor::from<T>(context, {count}, values, Lifetime::persistent)), decay};
}

template <class T>
void give_gradient(Context& context, const Parameter& p, const std::vector<T>& grad) {
  p.var.slot()->grad = Tensor::from<T>(context, p.var.shape(), grad, Lifetime::persistent);
}

template <class T>
std::vector<T> draws(std::uint64_t stream, std::size_t count) {
  Random random(11, stream);
  std::vector<T> values(count);
  for (T& v : values) v = static_cast<T>(random.normal());
  return values;
}

// The end of a step with a loss scale: may the optimiser go on? Else the gradients are forgotten.
inline bool unscaled(Context& context, LossScaler& scaler, std::span<const Parameter> parameters) {
  const bool finite = scaler.unscale(context, parameters).item() == 1.0;
  if (!finite)
    for (const Parameter& p : parameters) p.var.slot()->grad = Tensor();
  scaler.adapt(finite);
  return finite;
}

}  // namespace fovea::testing
