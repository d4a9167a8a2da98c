#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/fields.h"

namespace fovea {

// The file in the folder of a cell that is finished.
inline constexpr const char* kOutcomeFile = "outcome.json";

struct NamedValue {
  std::string name;
  double value = 0.0;

  void fields(FieldVisitor& v);
};

// What a trial of a row with one seed gave, and what it cost.
struct Outcome {
  std::vector<NamedValue> values;
  std::string trouble;  // why there are none: "out of memory"
  std::int64_t parameters = 0;
  std::int64_t steps = 0, all_steps = 0;        // taken, published
  double seconds = 0.0, all_seconds = 0.0;      // of training; published where the clock ends a run, else 0
  std::int64_t examples = 0, all_examples = 0;  // for training, here and in the original; 0: not known
  std::int64_t tokens = 0;
  std::uint64_t peak_memory = 0;
  bool smaller = false;  // the model, than the published one
  std::string machine;

  void set(std::string name, double value) { values.push_back({std::move(name), value}); }
  double value(std::string_view name) const;  // NaN: it has none

  bool complete() const;       // the published budget
  std::string budget() const;  // "300/50k steps, smaller" (than the published model); "full"
  void fields(FieldVisitor& v);
};

}  // namespace fovea
