#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "core/devices.h"
#include "engine.h"
#include "fovea/version.h"
#include "inspection.h"

NB_MODULE(_fovea, module) {
  using namespace fovea::python;
  nb::set_leak_warnings(false);  // of what the package's caches hold when the process ends; the tests look for others
  module.doc() = "The engine of fovea; see the package's own functions.";
  module.attr("version") = FOVEA_VERSION;
  bind_errors(module);
  bind_arrays(module);
  bind_mechanism(module);
  bind_pattern(module);
  bind_attention(module);
  bind_step(module);
  bind_reference(module);
  bind_files(module);
  bind_model(module);
  bind_pretrained(module);
  bind_training(module);
  bind_tokenizer(module);
  bind_generation(module);
  bind_inspection(module);
  module.def("set_num_threads", set_threads, nb::arg("threads"));
  module.def("get_num_threads", threads);
  module.def("devices", device_names);
  module.attr("has_cuda") = fovea::is_built(fovea::Device::cuda);
  module.def("empty_cache", empty_cache, nb::call_guard<nb::gil_scoped_release>());
}
