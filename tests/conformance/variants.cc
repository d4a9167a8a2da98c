#include <algorithm>
#include <ostream>
#include <set>

#include "conformance/suite.h"

namespace fovea::conformance {
namespace {

std::string label(const std::string& text) {
  std::string out;
  for (char c : text) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

// `base` with one more setting.
Variant variant_with(const Mechanism& base, const ParameterSpec& spec, const ParameterValue& value) {
  std::vector<Mechanism::Setting> settings;
  for (const ParameterSpec& p : base.parameters()) settings.push_back({std::string(p.name), base.value(p.name)});
  settings.push_back({std::string(spec.name), value});
  Mechanism mechanism(base.name(), settings);
  return {label(mechanism.text()), mechanism};
}

}  // namespace

std::vector<Variant> variants() {
  std::vector<Variant> all;
  std::set<std::string_view> seen;  // of the parameters that mechanisms share
  for (std::string_view name : mechanism_names()) {
    const Mechanism plain(name);
    const std::string_view tested = plain.kind().tested;
    const Mechanism base = tested.empty() ? plain : Mechanism::parse(tested);
    all.push_back({label(std::string(name)), plain});
    for (const ParameterSpec& spec : plain.parameters()) {
      if (spec.training_only || spec.lawless) continue;  // the laws are those of evaluation
      if (spec.shared && !seen.insert(spec.name).second) continue;
      for (std::string_view choice : spec.choices)
        if (choice != std::get<std::string>(spec.fallback))
          all.push_back(variant_with(base, spec, std::string(choice)));
      if (const auto* whole = std::get_if<std::int64_t>(&spec.fallback)) {  // smaller than the test's length
        const std::int64_t small = std::max<std::int64_t>(static_cast<std::int64_t>(spec.low), 4);
        if (small != *whole) all.push_back(variant_with(base, spec, small));
      }
      if (const bool* flag = std::get_if<bool>(&spec.fallback)) all.push_back(variant_with(base, spec, !*flag));
    }
  }
  return all;
}

bool supports(const Mechanism& mechanism, const std::vector<Feature>& needs) {
  return std::all_of(needs.begin(), needs.end(), [&](Feature f) { return mechanism.supports(f); });
}

bool chooses_anew(const Mechanism& mechanism, const OptionCase& option, DType dtype) {
  const bool rotates = std::find(option.needs.begin(), option.needs.end(), Feature::rotary) != option.needs.end();
  return mechanism.kind().chooses && rotates && (dtype == DType::bf16 || dtype == DType::f16);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Isa isa : law_isas())
    for (const Variant& variant : variants()) all.push_back({variant, isa});
  return all;
}

std::vector<Case> plain_cases() {
  std::vector<Case> all = cases();
  const bool has_avx512 = std::any_of(all.begin(), all.end(), [](const Case& c) { return c.isa == Isa::avx512; });
  if (has_avx512) std::erase_if(all, [](const Case& c) { return c.isa == Isa::avx512_bf16; });
  return all;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.variant.mechanism.text() << " on " << name_of(c.isa); }

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.variant.label + "_" + label(std::string(name_of(info.param.isa)));
}

Law::Law() : context_(law_context()) { force_isa(GetParam().isa); }

}  // namespace fovea::conformance
