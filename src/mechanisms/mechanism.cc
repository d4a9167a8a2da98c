#include "fovea/mechanism.h"

#include <fmt/format.h>

#include <charconv>

#include "core/nearest.h"
#include "mechanisms/kind.h"

namespace fovea {

#define FOVEA_MECHANISM(name) const MechanismKind& name##_kind();
#include "mechanisms/list.inc"
#undef FOVEA_MECHANISM

std::span<const MechanismKind* const> mechanism_kinds() {
#define FOVEA_MECHANISM(name) &name##_kind(),
  static const MechanismKind* const kKinds[] = {
#include "mechanisms/list.inc"
  };
#undef FOVEA_MECHANISM
  return kKinds;
}

namespace {

const MechanismKind& find_kind(std::string_view name) {
  for (const MechanismKind* kind : mechanism_kinds())
    if (kind->name == name) return *kind;
  fail(ErrorCode::usage, fmt::format("unknown attention \"{}\"", name), "attention",
       name_hint(name, mechanism_names()));
}

std::size_t parameter_index(const MechanismKind& kind, std::string_view name) {
  for (std::size_t i = 0; i < kind.parameters.size(); ++i)
    if (kind.parameters[i].name == name) return i;
  std::vector<std::string_view> names;
  for (const ParameterSpec& p : kind.parameters) names.push_back(p.name);
  const std::string_view near = nearest_name(name, names);
  std::string hint = near.empty() ? fmt::format("one of {}: fovea list {}", fmt::join(names, ", "), kind.name)
                                  : fmt::format("{}:{}=...", kind.name, near);
  if (names.empty()) hint = fmt::format("{}, which has no parameters", kind.name);
  fail(ErrorCode::usage, fmt::format("attention \"{}\" has no parameter \"{}\"", kind.name, name), "attention",
       std::move(hint));
}

std::string_view type_name(const ParameterValue& value) {
  constexpr std::string_view kNames[] = {"true or false", "a whole number", "a number", "a name"};
  return kNames[value.index()];
}

std::string value_text(const ParameterValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

// `likely`: what was meant; empty: the usual value is shown.
[[noreturn]] void refuse(const MechanismKind& kind, const ParameterSpec& spec, std::string expected,
                         std::string_view likely = {}) {
  fail(ErrorCode::usage, fmt::format("attention \"{}\": parameter \"{}\" must be {}", kind.name, spec.name, expected),
       fmt::format("attention.{}", spec.name),
       fmt::format("{}:{}={}   ({})", kind.name, spec.name, likely.empty() ? value_text(spec.fallback) : likely,
                   spec.help));
}

// The value as the parameter's type, where a number stands for the same: whole for real, 2 for the choice "2".
ParameterValue converted(const ParameterSpec& spec, const ParameterValue& value) {
  const bool whole = std::holds_alternative<std::int64_t>(value);
  if (std::holds_alternative<double>(spec.fallback) && whole) return static_cast<double>(std::get<std::int64_t>(value));
  if (std::holds_alternative<std::string>(spec.fallback) && (whole || std::holds_alternative<double>(value)))
    return value_text(value);
  return value;
}

// Checks type, range and choices.
ParameterValue checked(const MechanismKind& kind, const ParameterSpec& spec, const ParameterValue& given) {
  const ParameterValue value = converted(spec, given);
  if (value.index() != spec.fallback.index()) refuse(kind, spec, std::string(type_name(spec.fallback)));
  if (const auto* text = std::get_if<std::string>(&value)) {
    for (std::string_view c : spec.choices)
      if (c == *text) return value;
    refuse(kind, spec, fmt::format("one of {}, not \"{}\"", fmt::join(spec.choices, ", "), *text),
           nearest_name(*text, spec.choices));
  }
  double number = 0.0;
  if (const auto* whole = std::get_if<std::int64_t>(&value))
    number = static_cast<double>(*whole);
  else if (const auto* real = std::get_if<double>(&value))
    number = *real;
  else
    return value;  // a flag
  if (!(number >= spec.low && number <= spec.high))
    refuse(kind, spec, fmt::format("between {} and {}, not {}", spec.low, spec.high, number));
  return value;
}

// Reads text as the type of the parameter.
ParameterValue parse_value(const MechanismKind& kind, const ParameterSpec& spec, std::string_view text) {
  const char* end = text.data() + text.size();
  if (std::holds_alternative<bool>(spec.fallback) && (text == "true" || text == "false")) return text == "true";
  if (std::holds_alternative<std::int64_t>(spec.fallback)) {
    std::int64_t whole = 0;
    const auto [rest, error] = std::from_chars(text.data(), end, whole);
    if (error == std::errc() && rest == end) return whole;
  }
  if (std::holds_alternative<double>(spec.fallback)) {
    double real = 0.0;
    const auto [rest, error] = std::from_chars(text.data(), end, real);
    if (error == std::errc() && rest == end) return real;
  }
  if (std::holds_alternative<std::string>(spec.fallback)) return std::string(text);
  refuse(kind, spec, fmt::format("{}, not \"{}\"", type_name(spec.fallback), text));
}

}  // namespace

std::string_view name_of(Feature feature) {
  constexpr std::string_view kNames[kFeatures] = {"causal",  "bidirectional", "cross",  "padding", "packed", "scale",
                                                  "dropout", "bias",          "window", "pattern", "alibi",  "rotary",
                                                  "lse",     "state",         "step",   "grouped", "strict"};
  return kNames[static_cast<std::size_t>(feature)];
}

Mechanism::Mechanism(std::string_view name, std::span<const Setting> settings) : kind_(&find_kind(name)) {
  for (const ParameterSpec& spec : kind_->parameters) values_.push_back(spec.fallback);
  for (const Setting& setting : settings) {
    const std::size_t i = parameter_index(*kind_, setting.name);
    values_[i] = checked(*kind_, kind_->parameters[i], setting.value);
  }
}

Mechanism Mechanism::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  Mechanism mechanism(text.substr(0, colon));
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      fail(ErrorCode::usage, fmt::format("expected parameter=value, got \"{}\"", item), "attention",
           mechanism.kind_->parameters.empty()
               ? std::string(mechanism.name())
               : fmt::format("{}:{}={}", mechanism.name(), mechanism.kind_->parameters[0].name,
                             value_text(mechanism.kind_->parameters[0].fallback)));
    const std::size_t i = parameter_index(*mechanism.kind_, item.substr(0, equals));
    const ParameterSpec& spec = mechanism.kind_->parameters[i];
    mechanism.values_[i] =
        checked(*mechanism.kind_, spec, parse_value(*mechanism.kind_, spec, item.substr(equals + 1)));
  }
  return mechanism;
}

std::string_view Mechanism::name() const { return kind_->name; }
bool Mechanism::supports(Feature feature) const {
  return kind_->features.has(feature) && !(kind_->lacks != nullptr && kind_->lacks(*this, feature));
}
bool Mechanism::supports(DType dtype) const { return is_float(dtype); }
bool Mechanism::subquadratic() const { return kind_->subquadratic; }
bool Mechanism::needs_input() const {
  return kind_->needs_input && !(kind_->spares_input != nullptr && kind_->spares_input(*this));
}
std::vector<WeightSpec> Mechanism::weights(const LayerSizes& sizes) const {
  return kind_->weights == nullptr ? std::vector<WeightSpec>{} : kind_->weights(*this, sizes);
}
std::span<const ParameterSpec> Mechanism::parameters() const { return kind_->parameters; }

std::string Mechanism::text() const {
  std::string settings;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] == kind_->parameters[i].fallback) continue;
    settings += fmt::format("{}{}={}", settings.empty() ? ":" : ",", kind_->parameters[i].name, value_text(values_[i]));
  }
  return std::string(kind_->name) + settings;
}

const ParameterValue& Mechanism::value(std::string_view parameter) const {
  return values_[parameter_index(*kind_, parameter)];
}
bool Mechanism::flag(std::string_view parameter) const { return std::get<bool>(value(parameter)); }
std::int64_t Mechanism::integer(std::string_view parameter) const { return std::get<std::int64_t>(value(parameter)); }
double Mechanism::number(std::string_view parameter) const { return std::get<double>(value(parameter)); }
const std::string& Mechanism::choice(std::string_view parameter) const {
  return std::get<std::string>(value(parameter));
}

std::vector<std::string_view> mechanism_names() {
  std::vector<std::string_view> names;
  for (const MechanismKind* kind : mechanism_kinds()) names.push_back(kind->name);
  return names;
}

}  // namespace fovea
