#pragma once

#include <nanobind/nanobind.h>

namespace fovea::python {

void bind_inspection(nanobind::module_& module);

}  // namespace fovea::python
