#include "cli/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace fovea::cli {

Table results_table(const std::vector<RunResult>& results) {
  Table table({{"accuracy", Quantity::percent, Best::highest},
               {"loss", Quantity::number, Best::lowest},
               {"steps/s", Quantity::number, Best::highest},
               {"peak memory", Quantity::bytes, Best::lowest},
               {"parameters", Quantity::count, Best::none}});
  for (const RunResult& r : results)
    table.add(r.name, {r.accuracy, r.loss, r.steps_per_second(), static_cast<double>(r.peak_memory),
                       static_cast<double>(r.parameters)});
  return table;
}

std::string zones_text(const RunResult& result) {
  double all = 0.0;
  for (const ZoneTime& zone : result.zones) all += zone.seconds;
  std::vector<ZoneTime> zones = result.zones;
  std::stable_sort(zones.begin(), zones.end(),
                   [](const ZoneTime& a, const ZoneTime& b) { return a.seconds > b.seconds; });
  std::string out;
  for (const ZoneTime& zone : zones)
    if (zone.seconds >= 0.005 * all)
      out += fmt::format("{}{} {:.0f}%", out.empty() ? "" : ", ", zone.name, 100.0 * zone.seconds / all);
  return "where the time went: " + (out.empty() ? "nothing was timed" : out);
}

std::string folder_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    if (plain)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  return out;
}

}  // namespace fovea::cli
