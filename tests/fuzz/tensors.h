#pragma once

#include <vector>

#include "conformance/trial.h"
#include "fuzz/spec.h"

namespace fovea::fuzz {

// The nearest numbers of a type.
std::vector<double> rounded(const std::vector<double>& values, DType dtype);

// Makes equal what a stride of 0 makes one: values of (b, n, heads, d), row-major.
void repeat(const Shape& shape, Stride stride, std::vector<double>& values);

struct Layout {
  Shape shape;
  DType dtype;
  Stride stride = Stride::dense;
};
Tensor laid_out(const Context& context, const Layout& layout, const std::vector<double>& values);

// Makes a call malformed in the way that `wrong` names.
void spoil(const Context& context, const std::string& wrong, conformance::Inputs& in, conformance::Trial& trial);

}  // namespace fovea::fuzz
