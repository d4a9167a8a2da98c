#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fovea/dtype.h"
#include "fovea/export.h"
#include "fovea/init.h"

namespace fovea {

using ParameterValue = std::variant<bool, std::int64_t, double, std::string>;

// One setting of a mechanism, declared once in its file; JSON, command line, docs and errors read it from there.
struct ParameterSpec {
  std::string_view name;
  ParameterValue fallback;                     // the default; its type is the parameter's type
  double low = 0.0, high = 0.0;                // range of numbers, both ends allowed
  std::vector<std::string_view> choices = {};  // of a string
  std::string_view help = {};
  bool training_only = false;  // evaluation does not depend on it
  bool shared = false;   // several mechanisms have it and do the same with it: its choices are tested with the first
  bool lawless = false;  // what published code does against a law that all mechanisms obey: tested on its own
};

// Columns of the support matrix.
enum class Feature : std::uint8_t {
  causal,
  bidirectional,
  cross,    // queries and keys of different lengths
  padding,  // sequences of different lengths in a batch
  packed,   // sequences one after another in a batch of 1
  scale,
  dropout,  // of the weights
  bias,     // additive, and masks of pairs
  window,
  pattern,
  alibi,
  rotary,
  lse,      // log-sum-exp as an output
  state,    // initial and final state
  step,     // one token at a time
  grouped,  // fewer heads of k and v than of q
  strict,   // the causal form is strictly causal: no choice it makes looks at later tokens
};
inline constexpr int kFeatures = 17;
FOVEA_EXPORT std::string_view name_of(Feature feature);

// What the shapes of a mechanism's weights depend on.
struct LayerSizes {
  std::int64_t heads = 0, kv_heads = 0, d_k = 0, d_v = 0;
  std::int64_t width = 0;        // of the layer's input; 0: there is none
  std::int64_t max_length = -1;  // longest sequence; -1: not known
};

// A tensor a mechanism wants besides q, k and v: learned, or drawn once and kept.
struct WeightSpec {
  std::string name;
  Shape shape;  // -1 where it depends on a length that is not known
  Init init;
  bool trained = true;
  bool decay = false;
  bool shared = false;  // one for all layers of a model
  // For readers: what each size of the shape is, in the names of LayerSizes and of the parameters ("heads, 2 clip +
  // 1"), and what an element means.
  std::string_view axes = {}, meaning = {};
};

struct MechanismKind;  // what the registry knows about one mechanism (src/mechanisms/kind.h)

// A mechanism with its settings resolved: a name and a value for every declared parameter.
class FOVEA_EXPORT Mechanism {
 public:
  // Looks the name up and checks the settings; a wrong one is refused with the nearest name or the range.
  struct Setting {
    std::string name;
    ParameterValue value;
  };
  explicit Mechanism(std::string_view name, std::span<const Setting> settings = {});
  // "diag", or "diag:block=32,weights=rela".
  static Mechanism parse(std::string_view text);

  std::string_view name() const;
  std::string text() const;  // parse(text()) gives the same mechanism; defaults are left out
  const MechanismKind& kind() const { return *kind_; }
  bool supports(Feature feature) const;
  bool supports(DType dtype) const;
  bool subquadratic() const;  // cost grows (nearly) linearly with length
  bool needs_input() const;   // AttentionOptions::input must be given

  // What AttentionOptions::weights must hold, in this order; empty for most.
  std::vector<WeightSpec> weights(const LayerSizes& sizes) const;

  bool flag(std::string_view parameter) const;
  std::int64_t integer(std::string_view parameter) const;
  double number(std::string_view parameter) const;
  const std::string& choice(std::string_view parameter) const;
  std::span<const ParameterSpec> parameters() const;
  const ParameterValue& value(std::string_view parameter) const;

 private:
  const MechanismKind* kind_;
  std::vector<ParameterValue> values_;  // in the order of the declared parameters
};

// Names of every mechanism, in the order of src/mechanisms/list.inc.
FOVEA_EXPORT std::vector<std::string_view> mechanism_names();

}  // namespace fovea
