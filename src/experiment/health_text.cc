#include "experiment/health_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "experiment/health_log.h"

namespace fovea {
namespace {

double number(const std::optional<double>& value) { return value.value_or(std::nan("")); }

// A bound, where something was measured that it holds for.
TableCell bound(const std::optional<double>& value) {
  if (!value) return std::nan("");
  return std::isfinite(*value) ? TableCell(*value) : TableCell("none");
}

Table gradient_table(const HealthReport& report) {
  Table table({{"mean norm", Quantity::number},
               {"relative deviation", Quantity::number},
               {"largest", Quantity::number},
               {"last", Quantity::number}},
              "gradients of");
  const auto add = [&](const PartHealth& part) {
    table.add(part.place, {part.mean, part.relative_deviation, part.largest, part.last});
  };
  for (const PartHealth& part : report.parts) add(part);
  add(report.all);
  return table;
}

Table score_table(const HealthReport& report) {
  Table table({{"mechanism", Quantity::text},
               {"largest logit", Quantity::number},
               {"saturated rows", Quantity::percent},
               {"|dp/ds|", Quantity::number},
               {"bound", Quantity::number},
               {"|dL/ds|", Quantity::number},
               {"bound of it", Quantity::number},
               {"by (15)", Quantity::number}},
              "attention layer");
  for (const AttentionHealth& layer : report.attention) {
    const ScoreHealth& worst = layer.worst;
    table.add(layer.place, {layer.mechanism, number(worst.max_logit), number(worst.saturated), number(worst.derivative),
                            bound(worst.derivative_bound), number(worst.gradient), bound(worst.gradient_bound),
                            bound(worst.paper_bound)});
  }
  return table;
}

}  // namespace

std::vector<Section> health_sections(const HealthReport& report, const std::string& name) {
  const std::string of = name.empty() ? "" : name + ": ";
  std::vector<Section> sections{{of + "norms of gradients, before clipping", gradient_table(report)}};
  if (!report.attention.empty())
    sections.push_back(
        {of + "scores of attention, the worst that was seen, and what theory allows", score_table(report)});
  return sections;
}

std::string health_text(const HealthReport& report, const Terminal& terminal) {
  std::string text;
  for (const Section& section : health_sections(report))
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", section.title, section.table.text(terminal));
  return text + (report.warnings.empty() ? "no warnings\n" : fmt::format("{}\n", fmt::join(report.warnings, "\n")));
}

Figure health_figure(const Path& run) {
  const CsvTable table = read_csv(run / kHealthFile);
  const std::vector<double> steps = table.numbers("step"), norms = table.numbers("gradient_norm");
  Plot plot;
  plot.title = "Norms of gradients";
  plot.x = {"step", "", Scale::linear, {0.0}};
  plot.y = {"norm", "", Scale::log};
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (!(norms[i] > 0.0)) continue;  // a row of scores, or nothing that a logarithm could show
    const auto [at, is_new] = known.try_emplace(table.rows[i][1], plot.series.size());
    if (is_new) plot.series.push_back({.name = at->first});
    plot.series[at->second].x.push_back(steps[i]);
    plot.series[at->second].y.push_back(norms[i]);
  }
  return {
      std::move(plot),
      "Gradients of each part before clipping. Parts that fall far below the others learn little; jumps of one part "
      "alone are where training would break."};
}

}  // namespace fovea
