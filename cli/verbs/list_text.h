#pragma once

#include <fmt/format.h>

#include <string>

#include "fovea/mechanism.h"
#include "mechanisms/kind.h"

// How parameters and features read, in the terminal and in the docs.
namespace fovea::cli {

inline std::string value_text(const ParameterValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

// "1 to 65536", "softmax, rela", "true, false".
inline std::string range_text(const ParameterSpec& spec) {
  if (!spec.choices.empty()) return fmt::format("{}", fmt::join(spec.choices, ", "));
  if (std::holds_alternative<bool>(spec.fallback)) return "true, false";
  return fmt::format("{} to {}", spec.low, spec.high);
}

// In the length.
inline std::string_view cost_text(const MechanismKind& kind) {
  if (!kind.subquadratic) return "quadratic";
  return kind.log_factor ? "n log n" : "linear";
}

inline std::string feature_name(int i) { return std::string(name_of(static_cast<Feature>(i))); }

}  // namespace fovea::cli
