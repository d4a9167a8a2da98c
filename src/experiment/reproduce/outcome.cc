#include "experiment/reproduce/outcome.h"

#include <fmt/format.h>

#include <limits>

#include "report/numbers.h"

namespace fovea {
namespace {

// "50k", "1234"
std::string short_count(std::int64_t count) {
  constexpr std::int64_t kThousand = 1000;
  return count >= kThousand && count % kThousand == 0 ? fmt::format("{}k", count / kThousand)
                                                      : fmt::format("{}", count);
}

}  // namespace

void NamedValue::fields(FieldVisitor& v) {
  v("name", name, "what was measured");
  v("value", value, "the number");
}

void Outcome::fields(FieldVisitor& v) {
  v("values", values, "what was measured");
  v("trouble", trouble, "why nothing was measured");
  v("parameters", parameters, "learned numbers", at_least(0));
  v("steps", steps, "steps taken", at_least(0));
  v("all_steps", all_steps, "steps of the published run", at_least(0));
  v("seconds", seconds, "training time, evaluation not counted", at_least(0));
  v("all_seconds", all_seconds, "training time of the full budget, where the clock ends a run", at_least(0));
  v("examples", examples, "for training", at_least(0));
  v("all_examples", all_examples, "for training in the original set; 0: not known", at_least(0));
  v("tokens", tokens, "read while training", at_least(0));
  v("peak_memory", peak_memory, "most bytes in use at once");
  v("smaller", smaller, "the model is smaller than the published one");
  v("machine", machine, "what it ran on");
}

double Outcome::value(std::string_view name) const {
  for (const NamedValue& known : values)
    if (known.name == name) return known.value;
  return std::numeric_limits<double>::quiet_NaN();
}

bool Outcome::complete() const { return budget() == "full"; }

std::string Outcome::budget() const {
  std::vector<std::string> parts;
  // A clock stops after the step that passes it.
  if (all_seconds > 0.0 && seconds < 0.99 * all_seconds)
    parts.push_back(fmt::format("{}/{}", clock_text(seconds), clock_text(all_seconds)));
  if (all_steps > 0 && steps < all_steps)
    parts.push_back(fmt::format("{}/{} steps", short_count(steps), short_count(all_steps)));
  if (all_examples > 0 && examples < all_examples)
    parts.push_back(fmt::format("{}/{} examples", short_count(examples), short_count(all_examples)));
  if (smaller) parts.emplace_back("smaller");
  return parts.empty() ? "full" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace fovea
