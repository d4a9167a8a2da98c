#pragma once

#include <nanobind/nanobind.h>

#include "fovea/tensor.h"

// Arrays of any framework in and out, by DLPack or the buffer protocol, without a copy.
namespace fovea::python {

namespace nb = nanobind;

// A view of the caller's memory, which it keeps alive; strides as they come. `name` is the argument's, for errors.
Tensor tensor_from(nb::handle object, const char* name);

// An array that shares the tensor's memory and keeps it alive: NumPy's own, or one for the from_dlpack of others.
enum class Kind : bool { dlpack, numpy };
nb::object array_from(const Tensor& tensor, Kind kind);

}  // namespace fovea::python
