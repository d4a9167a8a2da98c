#pragma once

#include "fovea/model.h"
#include "support/draws.h"

// Parameters far from where they begin: also those that begin as zeros or ones, or in the noise.
namespace fovea::testing {

// Normal numbers, times `size`, in place of what a parameter begins with.
inline void draw(const Parameter& p, Random& draws, double size) {
  p.var.value().copy_from(random(Context(), p.var.shape(), draws, DType::f64, size));
}
inline void draw(const Model& model, Random& draws, double size) {
  for (const Parameter& p : model.parameters()) draw(p, draws, size);
}

// The same added to it.
inline void stir(const Parameter& p, Random& draws, double size = 0.3) {
  std::vector<double> values = p.var.value().to_vector<double>();
  for (double& value : values) value += size * draws.normal();
  p.var.value().copy_from(Tensor::from<double>(Context(), p.var.shape(), values));
}
inline void stir(const Model& model, Random& draws, double size = 0.3) {
  for (const Parameter& p : model.parameters()) stir(p, draws, size);
}

}  // namespace fovea::testing
