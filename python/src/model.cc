#include "model.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include "arrays.h"
#include "bindings.h"
#include "engine.h"
#include "io/fields.h"

namespace fovea::python {
namespace {

std::shared_ptr<Context> context_of(std::uint64_t seed) {
  const KeepThreads keep;
  return std::make_shared<Context>(ContextOptions{.threads = threads(), .seed = seed});
}

// A preset with a mechanism in its layers, or what either of them names alone.
ModelConfig preset_of(const std::string& preset, const std::string& attention) {
  if (preset.empty()) return ModelConfig::preset(attention);
  ModelConfig config = ModelConfig::preset(preset);
  if (!attention.empty()) config.set_attention(attention);
  return config;
}

// What JSON changes of a preset, fitted to the data where there is some.
std::unique_ptr<OwnedModel> make(const nb::tuple& names, const std::string& settings, std::uint64_t seed,
                                 const Dataset* data) {
  ModelConfig config = preset_of(nb::cast<std::string>(names[0]), nb::cast<std::string>(names[1]));
  read_fields(config, parse_json(settings, "model"), "model");
  if (data != nullptr) config.fit(*data);
  const auto context = context_of(seed);
  const KeepThreads keep;
  return std::make_unique<OwnedModel>(context, Model(*context, std::move(config)));
}

std::unique_ptr<OwnedModel> load(const std::string& folder, std::uint64_t seed) {
  const auto context = context_of(seed);
  const KeepThreads keep;
  return std::make_unique<OwnedModel>(context, load_model(*context, folder));
}

// ids i32 (b, n), with lengths where rows are padded; or (1, total) with the offsets of packed sequences.
nb::object logits(const OwnedModel& owned, nb::handle ids, const std::vector<std::int32_t>& lengths,
                  const std::vector<std::int32_t>& cu_seqlens) {
  const Tensor tokens = tensor_from(ids, "ids");
  if (tokens.rank() != 2 || tokens.dtype() != DType::i32) throw nb::type_error("ids must be int32 (batch, n)");
  Tensor out;
  {
    const Running running(*owned.context);
    Tape tape(*owned.context, {.record = false});
    Sequences rows{.lengths = lengths, .cu_seqlens = cu_seqlens};
    if (rows.empty())
      rows.lengths.assign(static_cast<std::size_t>(tokens.dim(0)), static_cast<std::int32_t>(tokens.dim(1)));
    out = owned.model.forward(tape, tokens.contiguous(*owned.context), rows).value();
  }
  return array_from(out, Kind::numpy);
}

// (name, array, trained) of each; the arrays are the model's own memory.
nb::list parameters(const OwnedModel& owned) {
  nb::list out;
  for (const Parameter& parameter : owned.model.parameters())
    out.append(nb::make_tuple(parameter.name, array_from(parameter.var.value(), Kind::numpy), parameter.trained()));
  return out;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<OwnedModel>(module, "Model")
      .def("logits", logits)
      .def("parameters", parameters)
      .def("parameter_count", [](const OwnedModel& m) { return m.model.parameter_count(); })
      .def("config", [](const OwnedModel& m) { return write_fields(m.model.config()).dump(); })
      .def("text", [](const OwnedModel& m) { return m.model.text(); })
      .def("save", [](const OwnedModel& m, const std::string& folder) { save_model(m.model, folder); });
  module.def("make_model", make, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("load_model", load);
  module.def("preset_names", [] {
    nb::list names;
    for (std::string_view name : ModelConfig::preset_names()) names.append(nb::str(name.data(), name.size()));
    return names;
  });
}

}  // namespace fovea::python
