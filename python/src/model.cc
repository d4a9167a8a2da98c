#include "model.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include "arrays.h"
#include "batch.h"
#include "bindings.h"
#include "engine.h"
#include "fovea/safetensors.h"
#include "io/fields.h"
#include "models/network.h"
#include "read_arguments.h"

namespace fovea::python {
namespace {

// A preset with a mechanism in its layers, or what either of them names alone.
ModelConfig preset_of(const std::string& preset, const std::string& attention) {
  if (preset.empty()) return ModelConfig::preset(attention);
  ModelConfig config = ModelConfig::preset(preset);
  if (!attention.empty()) config.set_attention(attention);
  return config;
}

// What JSON changes of a preset, fitted to the data where there is some.
std::unique_ptr<OwnedModel> make_model(const nb::tuple& names, const std::string& settings, std::uint64_t seed,
                                       const Dataset* data) {
  ModelConfig config = preset_of(nb::cast<std::string>(names[0]), nb::cast<std::string>(names[1]));
  read_arguments(config, settings, "fovea.Model");
  if (data != nullptr) config.fit(*data);
  const auto context = context_of(seed);
  auto made = std::make_unique<OwnedModel>(context, Model(*context, std::move(config)));
  if (data != nullptr && data->tokenizer) made->tokenizer = *data->tokenizer;
  return made;
}

// From all of its settings, as config() writes them.
std::unique_ptr<OwnedModel> remake_model(const std::string& config, std::uint64_t seed) {
  ModelConfig read;
  read_fields(read, parse_json(config, "model"), "model");
  const auto context = context_of(seed);
  return std::make_unique<OwnedModel>(context, Model(*context, std::move(read)));
}

std::unique_ptr<OwnedModel> load_model(const std::string& folder, std::uint64_t seed) {
  const auto context = context_of(seed);
  Model model = load_model(*context, folder);
  std::optional<Tokenizer> tokenizer = load_tokenizer(model, folder);
  return std::make_unique<OwnedModel>(context, std::move(model), std::move(tokenizer));
}

// What one of the model's functions makes of a batch, as an array.
template <class F>
nb::object result_of(const OwnedModel& owned, const nb::dict& given, F&& run) {
  const Batch batch = batch_from(*owned.context, given);
  Tensor out;
  {
    const Running running;
    Tape tape(*owned.context, {.record = false});
    out = run(tape, batch).value();
  }
  return array_from(out, Kind::numpy);
}

nb::object forward(const OwnedModel& owned, const nb::dict& given) {
  return result_of(owned, given, [&](Tape& tape, const Batch& batch) { return owned.model.forward(tape, batch); });
}

nb::object features(const OwnedModel& owned, const nb::dict& given) {
  return result_of(owned, given,
                   [&](Tape& tape, const Batch& batch) { return owned.model.network().features(tape, batch.input); });
}

void forget_gradients(const Model& model) {
  for (const Parameter& p : model.parameters())
    if (p.trained()) p.var.slot()->grad = {};
}

// (loss, [(name, gradient)]) of a batch with targets; dropout is off.
nb::tuple gradients(const OwnedModel& owned, const nb::dict& given) {
  const Batch batch = batch_from(*owned.context, given);
  double value = 0.0;
  std::vector<NamedTensor> found;
  {
    const Running running;
    forget_gradients(owned.model);
    Tape tape(*owned.context);
    const Loss loss = owned.model.loss(tape, batch);
    value = loss.value.value().item();
    tape.backward(loss.value);
    for (const Parameter& p : owned.model.parameters())
      if (p.trained() && p.var.grad().defined()) found.push_back({p.name, p.var.grad().clone(*owned.context)});
    forget_gradients(owned.model);
  }
  nb::list named;
  for (const NamedTensor& gradient : found)
    named.append(nb::make_tuple(gradient.name, array_from(gradient.tensor, Kind::numpy)));
  return nb::make_tuple(value, named);
}

void save(const OwnedModel& owned, const std::string& folder) {
  if (owned.tokenizer) return save_model(owned.model, *owned.tokenizer, folder);
  save_model(owned.model, folder);
}

// (name, array, trained) of each; the arrays are the model's own memory.
nb::list parameters(const OwnedModel& owned) {
  nb::list out;
  for (const Parameter& parameter : owned.model.parameters())
    out.append(nb::make_tuple(parameter.name, array_from(parameter.var.value(), Kind::numpy), parameter.trained()));
  return out;
}

}  // namespace

std::shared_ptr<Context> context_of(std::uint64_t seed) {
  return std::make_shared<Context>(ContextOptions{.threads = threads(), .seed = seed});
}

void bind_model(nb::module_& module) {
  nb::class_<OwnedModel>(module, "Model")
      .def("forward", forward)
      .def("features", features)
      .def("gradients", gradients)
      .def("parameters", parameters)
      .def("parameter_count", [](const OwnedModel& m) { return m.model.parameter_count(); })
      .def_prop_ro("seed", [](const OwnedModel& m) { return m.context->seed(); })
      .def_rw("tokenizer", &OwnedModel::tokenizer, nb::arg().none())
      .def("config", [](const OwnedModel& m) { return write_fields(m.model.config()).dump(); })
      .def("text", [](const OwnedModel& m) { return m.model.text(); })
      .def("save", save);
  module.def("make_model", make_model, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("remake_model", remake_model);
  module.def("load_model", load_model);
  module.def("preset_names", [] {
    nb::list names;
    for (std::string_view name : ModelConfig::preset_names()) names.append(nb::str(name.data(), name.size()));
    return names;
  });
}

}  // namespace fovea::python
