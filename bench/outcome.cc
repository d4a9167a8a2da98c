#include "bench/outcome.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/version.h"
#include "measure/machine.h"

namespace fovea::bench {
namespace {

std::string in_unit(Outcome::Unit unit, double value) {
  switch (unit) {
    case Outcome::Unit::share: return fmt::format("{:.0f}%", 100.0 * value);
    case Outcome::Unit::ratio: return fmt::format("{:.2f}x", value);
    case Outcome::Unit::bytes: return fmt::format("{:.0f} MB", value / 1e6);
  }
  return {};
}

// Three significant digits.
std::string number(double value) {
  if (value == 0.0) return "";
  return value >= 100.0 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}f}", value, value >= 10.0 ? 1 : 2);
}

std::string zones_text(const StepTiming& step) {
  std::vector<ZoneTime> zones = step.zones;
  std::stable_sort(zones.begin(), zones.end(),
                   [](const ZoneTime& a, const ZoneTime& b) { return a.seconds > b.seconds; });
  std::string out;
  for (const ZoneTime& zone : zones) {
    const double share = step.share(zone.name);
    if (share >= 0.005) out += fmt::format("{}{} {:.0f}%", out.empty() ? "" : ", ", zone.name, 100.0 * share);
  }
  return out;
}

}  // namespace

std::string Outcome::value_text() const { return in_unit(unit, value); }
std::string Outcome::bar_text() const { return (at_least() ? ">= " : "<= ") + in_unit(unit, bar); }

std::size_t Results::missed() const {
  return static_cast<std::size_t>(
      std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return !o.met(); }));
}

std::string outcome_line(const Outcome& o) {
  return fmt::format("{:<52}{:>8}{:>8}{:>10}{}", o.work, number(1e3 * o.seconds), o.value_text(), o.bar_text(),
                     o.met() ? "" : "  MISSED");
}

std::string step_line(const StepTiming& step) {
  return fmt::format("train step {}: {:.2f} steps/s; {}", step.model, step.steps_per_second(), zones_text(step));
}

std::string markdown(const Results& r) {
  std::string out = fmt::format(
      "# Benchmarks\n\n"
      "Made by `{}` on {} with fovea {} ({}, oneDNN {}).\n"
      "Machine: {}. {} threads.\n\n"
      "f32, batch 1, 8 heads, width 64 unless said. \"%\" is the share of the rate that oneDNN's sgemm of 2048^3 "
      "reaches\n"
      "before and after the work in the same round ({:.0f} GFLOP/s in the median); medians of rounds in which the "
      "work\n"
      "alternates. Rounds whose sgemm fell below 90% of the best were measured again: {}.\n\n"
      "| Work | ms | GFLOP/s | Reached | Bar | |\n| --- | --: | --: | --: | --: | --- |\n",
      r.command, today(), FOVEA_VERSION, compiler_version(), onednn_version(), this_machine().text(), r.threads,
      r.anchor / 1e9, r.repeated);
  for (const Outcome& o : r.outcomes)
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", o.work, number(1e3 * o.seconds), number(o.rate / 1e9),
                       o.value_text(), o.bar_text(), o.met() ? "" : "**missed**");
  if (r.steps.empty()) return out;
  out +=
      "\n## A training step\n\n2 layers, width 64, 8 sequences of 2048 tokens, f32, with dropout and AdamW.\n\n"
      "| Model | Steps/s | Peak memory, MB | Where the time goes |\n| --- | --: | --: | --- |\n";
  for (const StepTiming& step : r.steps)
    out += fmt::format("| `{}` | {:.2f} | {:.0f} | {} |\n", step.model, step.steps_per_second(),
                       static_cast<double>(step.peak_memory) / 1e6, zones_text(step));
  return out;
}

}  // namespace fovea::bench
