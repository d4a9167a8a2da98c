#pragma once

#include <nanobind/nanobind.h>

#include "fovea/tensor.h"
#include "place.h"

// Arrays of any framework in and out, by DLPack or the buffer protocol, without a copy.
namespace fovea::python {

namespace nb = nanobind;

// Where the arrays of a call are to lie: as that of the first one does.
struct Home {
  Place place;
  std::shared_ptr<Memory> memory = borrowed_memory();
  const char* first = nullptr;  // name of the argument that decided; null: the function reads on the host
};

// A view of the caller's memory, which it keeps alive; strides as they come. `name` is the argument's, for errors.
// Refuses arrays that lie elsewhere.
Tensor tensor_from(nb::handle object, const char* name, const Home& home = {});

// An array that shares the tensor's memory and keeps it alive: NumPy's own, or one for the from_dlpack of others.
enum class Kind : bool { dlpack, numpy };
nb::object array_from(const Tensor& tensor, Kind kind, const Place& place = {});

}  // namespace fovea::python
