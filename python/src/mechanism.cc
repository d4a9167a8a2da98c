#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include <algorithm>

#include "arrays.h"
#include "bindings.h"
#include "engine.h"
#include "fovea/attention.h"
#include "mechanisms/kind.h"

namespace fovea::python {
namespace {

// bool before int, which it also is in Python.
ParameterValue plain_value(nb::handle value, const std::string& name) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (PyIndex_Check(value.ptr())) {
    std::int64_t whole = 0;
    if (nb::try_cast(value, whole)) return whole;
  }
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  double real = 0.0;
  if (nb::try_cast(value, real)) return real;
  throw nb::type_error(fmt::format("parameter \"{}\" must be a bool, a number or a str", name).c_str());
}

// A whole number may name a choice: order=2 is order="2".
ParameterValue value_from(nb::handle given, const std::string& name, const Mechanism& mechanism) {
  ParameterValue value = plain_value(given, name);
  const auto* const whole = std::get_if<std::int64_t>(&value);
  const auto specs = mechanism.parameters();
  const auto spec = std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& s) { return s.name == name; });
  const bool chosen = spec != specs.end() && std::holds_alternative<std::string>(spec->fallback);
  return whole != nullptr && chosen ? ParameterValue(std::to_string(*whole)) : value;
}

Mechanism make_mechanism(std::string_view text, const nb::dict& parameters) {
  if (parameters.size() == 0) return Mechanism::parse(text);
  const Mechanism named = Mechanism::parse(text);
  std::vector<Mechanism::Setting> settings;
  for (const ParameterSpec& spec : named.parameters())
    settings.push_back({std::string(spec.name), named.value(spec.name)});
  for (const auto& [key, value] : parameters) {
    auto name = nb::cast<std::string>(key);
    settings.push_back({name, value_from(value, name, named)});
  }
  return Mechanism(named.name(), settings);
}

nb::dict parameters_of(const Mechanism& mechanism) {
  nb::dict out;
  for (const ParameterSpec& spec : mechanism.parameters())
    out[nb::cast(spec.name)] = nb::cast(mechanism.value(spec.name));
  return out;
}

nb::dict parameter_dict(const ParameterSpec& spec) {
  nb::dict out;
  out["name"] = spec.name;
  out["default"] = nb::cast(spec.fallback);
  out["help"] = spec.help;
  if (!spec.choices.empty())
    out["choices"] = nb::cast(spec.choices);
  else if (!std::holds_alternative<bool>(spec.fallback))
    out["range"] = nb::make_tuple(spec.low, spec.high);
  return out;
}

// What the registry says about one mechanism, with default settings.
nb::dict description(std::string_view name) {
  const Mechanism mechanism(name);
  const MechanismKind& kind = mechanism.kind();
  nb::list parameters, features;
  for (const ParameterSpec& spec : kind.parameters) parameters.append(parameter_dict(spec));
  for (int i = 0; i < kFeatures; ++i)
    if (const auto feature = static_cast<Feature>(i); mechanism.supports(feature)) features.append(name_of(feature));
  nb::dict out;
  out["name"] = kind.name;
  out["family"] = kind.family;
  out["summary"] = kind.summary;
  out["paper"] = kind.paper;
  out["linear"] = kind.subquadratic;
  out["needs_input"] = mechanism.needs_input();
  out["parameters"] = parameters;
  out["features"] = features;
  return out;
}

bool supports(const Mechanism& mechanism, std::string_view feature) {
  for (int i = 0; i < kFeatures; ++i)
    if (name_of(static_cast<Feature>(i)) == feature) return mechanism.supports(static_cast<Feature>(i));
  fail(ErrorCode::usage, fmt::format("unknown feature \"{}\"", feature), "supports");
}

LayerSizes sizes_from(const std::vector<std::int64_t>& s) {
  if (s.size() != 6) fail(ErrorCode::internal, "sizes are heads, kv_heads, d_k, d_v, width, max_length");
  return {.heads = s[0], .kv_heads = s[1], .d_k = s[2], .d_v = s[3], .width = s[4], .max_length = s[5]};
}

// (name, shape, trained) of each weight; -1 in a shape where any size will do.
nb::list weight_specs(const Mechanism& mechanism, const std::vector<std::int64_t>& sizes) {
  nb::list out;
  for (const WeightSpec& spec : mechanism.weights(sizes_from(sizes))) {
    nb::list shape;
    for (const std::int64_t size : spec.shape.dims()) shape.append(size);
    out.append(nb::make_tuple(spec.name, nb::tuple(shape), spec.trained));
  }
  return out;
}

nb::list draw_weights(const Mechanism& mechanism, const std::vector<std::int64_t>& sizes, bool f64,
                      std::uint64_t seed) {
  const KeepThreads keep;
  const Context context({.threads = 1, .seed = seed});
  nb::list out;
  for (const Var& weight : make_weights(context, mechanism, sizes_from(sizes), f64 ? DType::f64 : DType::f32))
    out.append(array_from(weight.value(), Kind::numpy));
  return out;
}

}  // namespace

void bind_mechanism(nb::module_& module) {
  nb::class_<Mechanism>(module, "Mechanism")
      .def_prop_ro("name", &Mechanism::name)
      .def_prop_ro("text", &Mechanism::text)
      .def_prop_ro("parameters", parameters_of)
      .def_prop_ro("needs_input", &Mechanism::needs_input)
      .def_prop_ro("chooses", [](const Mechanism& m) { return m.kind().chooses; })
      .def_prop_ro("stops_gradient",
                   [](const Mechanism& m) { return m.kind().stops_gradient != nullptr && m.kind().stops_gradient(m); })
      .def_prop_ro("draws", [](const Mechanism& m) { return m.kind().draws != nullptr && m.kind().draws(m); })
      .def("supports", supports)
      .def("weights", weight_specs)
      .def("draw_weights", draw_weights);
  module.def("mechanism", make_mechanism);
  module.def("mechanism_names", mechanism_names);
  module.def("describe", description);
}

}  // namespace fovea::python
