#pragma once

#include <nanobind/nanobind.h>

// The parts of the extension module _fovea; the package's Python files make the interface of it.
namespace fovea::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_arrays(nb::module_& module);
void bind_mechanism(nb::module_& module);
void bind_pattern(nb::module_& module);
void bind_attention(nb::module_& module);
void bind_step(nb::module_& module);
void bind_reference(nb::module_& module);
void bind_files(nb::module_& module);
void bind_model(nb::module_& module);
void bind_pretrained(nb::module_& module);
void bind_training(nb::module_& module);
void bind_tokenizer(nb::module_& module);
void bind_generation(nb::module_& module);

}  // namespace fovea::python
