#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "bindings.h"
#include "engine.h"
#include "fovea/safetensors.h"

namespace fovea::python {
namespace {

// ([(name, array)], metadata); the arrays are views of the mapped file.
nb::tuple read_tensors(const std::string& path) {
  const SafetensorsFile file(path);
  nb::list tensors;
  for (const std::string& name : file.names())
    tensors.append(nb::make_tuple(name, array_from(file.tensor(name), Kind::numpy)));
  return nb::make_tuple(tensors, file.metadata());
}

// tensors: a sequence of (name, array).
void write_tensors(const std::string& path, const nb::sequence& tensors, const Metadata& metadata) {
  std::vector<NamedTensor> named;
  const Context context({.threads = 1});
  for (nb::handle item : tensors) {
    auto name = nb::cast<std::string>(item[0]);
    const Tensor tensor = tensor_from(item[1], name.c_str()).contiguous(context);
    named.push_back({std::move(name), tensor});
  }
  write_safetensors(path, named, metadata);
}

}  // namespace

void bind_files(nb::module_& module) {
  module.def("read_safetensors", read_tensors);
  module.def("write_safetensors", write_tensors);
}

}  // namespace fovea::python
