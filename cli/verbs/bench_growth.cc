#include "cli/verbs/bench_growth.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "io/section.h"
#include "measure/machine.h"
#include "mechanisms/kind.h"
#include "report/plot.h"
#include "report/table.h"

namespace fovea::cli {
namespace {

constexpr const char* kJsonName = "bench-mechanisms.json";

// Least share of the sgemm rate at kRateLength.
const std::map<std::string_view, double>& rate_bars() {
  static const std::map<std::string_view, double> bars{
      {"sparse-strided", 0.45}, {"sparse-fixed", 0.45}, {"bigbird", 0.45}, {"longformer", 0.45}, {"performer", 0.45},
      {"cosformer", 0.45},      {"rfa", 0.45},          {"retnet", 0.45},  {"gla", 0.35}};
  return bars;
}

const MechanismKind& kind_of(const Growth& growth) { return Mechanism::parse(growth.mechanism).kind(); }

double time_bar(const MechanismKind& kind) {
  if (!kind.subquadratic) return INFINITY;
  return kind.log_factor ? 1.3 : 1.1;
}

// Which bars a mechanism falls short of.
struct Misses {
  bool time, memory, rate;
};

Misses misses_of(const Growth& row) {
  constexpr double kMemoryBar = 1.1;
  const MechanismKind& kind = kind_of(row);
  const GrowthPoint* fast = row.at(kRateLength);
  const auto bar = rate_bars().find(kind.name);
  return {row.time_exponent() > time_bar(kind), kind.subquadratic && row.memory_exponent() > kMemoryBar,
          fast != nullptr && bar != rate_bars().end() && fast->share < bar->second};
}

// Slope of log y over log n.
template <class Value>
double slope(const std::vector<GrowthPoint>& points, Value value) {
  double mean_x = 0.0, mean_y = 0.0, above = 0.0, below = 0.0;
  const auto count = static_cast<double>(points.size());
  const auto x = [](const GrowthPoint& p) { return std::log(static_cast<double>(p.n)); };
  const auto y = [&](const GrowthPoint& p) { return std::log(value(p)); };
  for (const GrowthPoint& p : points) {
    mean_x += x(p) / count;
    mean_y += y(p) / count;
  }
  for (const GrowthPoint& p : points) {
    above += (x(p) - mean_x) * (y(p) - mean_y);
    below += (x(p) - mean_x) * (x(p) - mean_x);
  }
  return below > 0.0 ? above / below : NAN;
}

// The two passes of a length in one point. A backward row's memory is that of both.
void add_row(const BenchRow& row, Growth& growth) {
  if (growth.points.empty() || growth.points.back().n != row.n) growth.points.push_back({.n = row.n});
  GrowthPoint& point = growth.points.back();
  const double operations = point.share * row.anchor * point.seconds + row.timing.rate * row.timing.seconds;
  point.seconds += row.timing.seconds;
  point.share = operations / point.seconds / row.anchor;
  point.bytes = std::fmax(point.bytes, static_cast<double>(row.peak_memory));
}

TableCell marked(double value, bool missed) {
  TableCell cell(value);
  cell.missed = missed;
  return cell;
}

Table growth_table(const GrowthReport& report) {
  Table table({{fmt::format("n {}", kLastQuadratic), Quantity::seconds},
               {"softmax / it", Quantity::number},
               {"time n^", Quantity::number},
               {"memory n^", Quantity::number},
               {"of sgemm", Quantity::percent}});
  for (const Growth& row : report.rows) {
    const GrowthPoint *at = row.at(kLastQuadratic), *fast = row.at(kRateLength);
    const Misses misses = misses_of(row);
    table.add(row.mechanism,
              {at ? at->seconds : NAN, at ? at->softmax / at->seconds : NAN, marked(row.time_exponent(), misses.time),
               marked(row.memory_exponent(), misses.memory), marked(fast ? fast->share : NAN, misses.rate)});
  }
  return table;
}

std::string win_text(const Growth& row) {
  const auto from = row.wins_from();
  if (!from) return fmt::format("Not faster than softmax up to n {}.", row.points.back().n);
  if (*from == row.points.front().n) return "Faster than softmax at every length measured.";
  return fmt::format("Faster than softmax from n {} on.", *from);
}

std::string milliseconds(double seconds) {
  return seconds < 0.1 ? fmt::format("{:.1f}", 1e3 * seconds) : fmt::format("{:.0f}", 1e3 * seconds);
}

std::string points_table(const Growth& row) {
  std::string out = "| n | ms | softmax, ms | peak memory, MB | of sgemm |\n| --: | --: | --: | --: | --: |\n";
  for (const GrowthPoint& p : row.points)
    out += fmt::format("| {} | {} | {} | {:.0f} | {:.0f}% |\n", p.n, milliseconds(p.seconds), milliseconds(p.softmax),
                       p.bytes / 1e6, 1e2 * p.share);
  return out;
}

std::string summary_line(const Growth& row) {
  const GrowthPoint *at = row.at(kLastQuadratic), *fast = row.at(kRateLength);
  const Misses misses = misses_of(row);
  const auto mark = [](bool missed) { return missed ? " **missed**" : ""; };
  const auto power = [](double exponent) { return std::isnan(exponent) ? "-" : fmt::format("{:.2f}", exponent); };
  const auto from = row.wins_from();
  return fmt::format("| [`{0}`](mechanisms/{0}.md) | {1} | {2}{3} | {4}{5} | {6}{7} | {8} |\n", row.mechanism,
                     at ? fmt::format("{} | {:.2f}x", milliseconds(at->seconds), at->softmax / at->seconds) : "- | -",
                     power(row.time_exponent()), mark(misses.time), power(row.memory_exponent()), mark(misses.memory),
                     fast ? fmt::format("{:.0f}%", 1e2 * fast->share) : "", mark(misses.rate),
                     row.mechanism == "softmax" ? ""
                     : from                     ? fmt::format("from n {}", *from)
                                                : "no");
}

std::string summary_table(const GrowthReport& report) {
  std::string out = fmt::format(
      "| Mechanism | ms, n {} | softmax / it | time ~ n^ | memory ~ n^ | of sgemm, n {} | Faster than softmax |\n"
      "| --- | --: | --: | --: | --: | --: | --- |\n",
      kLastQuadratic, kRateLength);
  for (const Growth& row : report.rows) out += summary_line(row);
  return out;
}

std::vector<std::string_view> families_of(const GrowthReport& report) {
  std::vector<std::string_view> families;
  for (const Growth& row : report.rows)
    if (kind_of(row).subquadratic && std::find(families.begin(), families.end(), kind_of(row).family) == families.end())
      families.push_back(kind_of(row).family);
  return families;
}

// The sub-quadratic ones of a family, with softmax to compare.
Plot family_plot(const GrowthReport& report, std::string_view family) {
  Plot plot;
  plot.title = fmt::format("Forward and backward: {}", family);
  plot.x = {"length n", "", Scale::log2};
  plot.y = {"time", "ms", Scale::log};
  plot.guide = Guide{1.0, "linear"};
  for (const Growth& row : report.rows) {
    const MechanismKind& kind = kind_of(row);
    if (row.mechanism != "softmax" && (kind.family != family || !kind.subquadratic)) continue;
    Series series{row.mechanism, {}, {}};
    for (const GrowthPoint& p : row.points) {
      series.x.push_back(static_cast<double>(p.n));
      series.y.push_back(1e3 * p.seconds);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string picture_of(std::string_view family) {
  std::string name = fmt::format("pictures/growth-{}.png", family);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string markdown(const GrowthReport& report) {
  std::string out = fmt::format(
      "{}\n## Every mechanism\n\nMade by `{}` on {}. Machine: {}. {}, forward and backward. Exponents over all "
      "measured "
      "lengths; quadratic mechanisms are measured up to n {}. Shares of the sgemm rate count the operations a "
      "mechanism "
      "needs, not those of softmax.\n\n",
      kMechanismSection, report.command, report.date, report.machine, report.setting, kLastQuadratic);
  out += summary_table(report);
  for (const std::string_view family : families_of(report))
    out += fmt::format("\n![{0}]({1})\n", family, picture_of(family));
  return out;
}

Json to_json(const GrowthReport& report) {
  Json rows = Json::array();
  for (const Growth& row : report.rows) {
    Json points = Json::array();
    for (const GrowthPoint& p : row.points)
      points.push_back(
          {{"n", p.n}, {"seconds", p.seconds}, {"share", p.share}, {"bytes", p.bytes}, {"softmax", p.softmax}});
    rows.push_back({{"mechanism", row.mechanism}, {"points", points}});
  }
  return {{"setting", report.setting},
          {"machine", report.machine},
          {"date", report.date},
          {"command", report.command},
          {"rows", rows}};
}

}  // namespace

bool has_rate_bar(std::string_view mechanism) { return rate_bars().contains(mechanism); }

double Growth::time_exponent() const {
  return slope(points, [](const GrowthPoint& p) { return p.seconds; });
}

double Growth::memory_exponent() const {
  return slope(points, [](const GrowthPoint& p) { return p.bytes; });
}

const GrowthPoint* Growth::at(std::int64_t n) const {
  const auto point = std::find_if(points.begin(), points.end(), [&](const GrowthPoint& p) { return p.n == n; });
  return point == points.end() ? nullptr : &*point;
}

std::optional<std::int64_t> Growth::wins_from() const {
  std::optional<std::int64_t> from;
  for (auto p = points.rbegin(); p != points.rend() && p->seconds < p->softmax; ++p) from = p->n;
  return from;
}

GrowthReport growth_of(const BenchReport& report) {
  GrowthReport growth{report.setting, report.machine, today(), report.command, {}};
  for (const BenchRow& row : report.rows) {
    const auto same = [&](const Growth& g) { return g.mechanism == row.mechanism; };
    auto at = std::find_if(growth.rows.begin(), growth.rows.end(), same);
    if (at == growth.rows.end()) at = growth.rows.insert(at, Growth{row.mechanism, {}});
    add_row(row, *at);
  }
  const auto softmax =
      std::find_if(growth.rows.begin(), growth.rows.end(), [](const Growth& g) { return g.mechanism == "softmax"; });
  if (softmax == growth.rows.end()) return growth;
  const Growth compared = *softmax;
  for (Growth& row : growth.rows)
    for (GrowthPoint& p : row.points)
      if (const GrowthPoint* other = compared.at(p.n)) p.softmax = other->seconds;
  return growth;
}

std::string growth_text(const GrowthReport& report) {
  return fmt::format("{}, forward and backward\n{}", report.setting,
                     growth_table(report).text(Terminal::of(STDOUT_FILENO)));
}

void write_growth(const GrowthReport& report, const Path& docs) {
  make_folder(docs / "pictures");
  write_file(docs / kJsonName, json_text(to_json(report)));
  for (const std::string_view family : families_of(report))
    write_png(family_plot(report, family), docs / picture_of(family));
  const Path page = docs / "bench.md";
  write_file(page, before_marker(read_if_there(page), kMechanismSection) + markdown(report));
}

std::optional<GrowthReport> read_growth(const Path& docs) {
  const Path path = docs / kJsonName;
  if (!is_there(path)) return {};
  const Json json = parse_json(read_file(path, kSectionCap), path.string());
  try {
    GrowthReport report{json.at("setting"), json.at("machine"), json.at("date"), json.at("command"), {}};
    for (const Json& row : json.at("rows")) {
      Growth& growth = report.rows.emplace_back(Growth{row.at("mechanism"), {}});
      for (const Json& p : row.at("points"))
        growth.points.push_back({p.at("n"), p.at("seconds"), p.at("share"), p.at("bytes"), p.at("softmax")});
    }
    return report;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::bad_input, error.what(), path.string(), "fovea bench attention --all --docs writes it");
  }
}

std::string measured_section(const GrowthReport& report, std::string_view mechanism) {
  const auto row =
      std::find_if(report.rows.begin(), report.rows.end(), [&](const Growth& g) { return g.mechanism == mechanism; });
  if (row == report.rows.end()) return "";
  std::string out = fmt::format("## Measured\n\n{}, forward and backward, on {} ({}).\n\n{}\n", report.setting,
                                report.machine, report.date, points_table(*row));
  if (row->points.size() > 1)
    out += fmt::format("Time grows as n^{:.2f}, memory as n^{:.2f}. ", row->time_exponent(), row->memory_exponent());
  return out + (mechanism == "softmax" ? "" : win_text(*row)) + "\n\n";
}

}  // namespace fovea::cli
