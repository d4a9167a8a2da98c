#include "experiment/compare_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/statistics.h"
#include "experiment/compare_tables.h"
#include "experiment/curves.h"

namespace fovea {
namespace {

bool has_classes(const CompareReport& report) { return report.scores().classes(); }

// Of what is watched while training: accuracy where there is one, else the loss.
Axis validation_axis(const CompareReport& report) {
  if (has_classes(report)) return {"accuracy", "%"};
  return report.scores().numbers() ? Axis{"squared error"} : Axis{"loss", "nats"};
}

// Of what models are judged by in the end.
struct Judged {
  const char* title;
  Axis axis;
  bool up;
};
Judged judged_by(const CompareReport& report) {
  if (report.scores().task == Task::regress) return {"Correlation", {"Pearson's correlation"}, true};
  const bool classes = has_classes(report);
  return {classes ? "Accuracy" : "Loss", validation_axis(report), classes};
}

std::vector<Level> baseline(const CompareReport& report) {
  if (report.majority > 0.0) return {{100.0 * report.majority, "most frequent answer"}};
  return {};
}

// Score against speed, as large as the memory.
Figure speed_figure(const CompareReport& report) {
  const Judged judged = judged_by(report);
  Plot plot;
  plot.title = fmt::format("{} against speed", judged.title);
  plot.y = judged.axis;
  plot.levels = baseline(report);
  plot.labelled = true;
  std::vector<double> speeds;
  for (const RivalReport& rival : report.rivals) {
    std::vector<double> speed, memory;
    for (const RunResult& result : rival.results) {
      speed.push_back(result.tokens_per_second());
      memory.push_back(static_cast<double>(result.peak_memory));
    }
    const Estimate score = estimate_of(report, rival, score_columns(report.scores()).front());
    const double factor = has_classes(report) ? 100.0 : 1.0;
    Series series{.name = rival.name, .x = {describe(speed).mean}, .y = {factor * score.value}};
    series.size = {describe(memory).mean};
    if (std::isfinite(score.margin)) series.margin = {factor * score.margin};
    series.note = quantity_text(Quantity::bytes, series.size.front());
    speeds.push_back(series.x.front());
    plot.series.push_back(std::move(series));
  }
  plot.x = {"training speed", "tokens/s", scale_for(speeds)};
  return {std::move(plot),
          fmt::format("{}, right is faster, and the larger a circle the more memory training takes. The upright lines "
                      "are 95% intervals on the test part: where they overlap much, nothing is decided.",
                      judged.up ? "Up is better" : "Down is better")};
}

using Member = std::vector<double> Curve::*;

// A line for each model: the mean over its seeds, each seed faintly behind it.
std::vector<Series> curves(const CompareReport& report, const char* split, Member x, Member y) {
  std::vector<Series> all;
  for (const RivalReport& rival : report.rivals) {
    Series series{.name = rival.name};
    for (const RunSettings& settings : rival.settings) {
      Curve curve = read_curve(settings.train.out, split);
      if (!curve.step.empty()) series.behind.push_back({std::move(curve.*x), std::move(curve.*y)});
    }
    if (series.behind.empty()) continue;
    std::vector<Line> lines;
    for (const auto& [xs, ys] : series.behind) lines.push_back({xs, ys});
    Line mean = mean_line(lines);
    series.x = std::move(mean.x);
    series.y = std::move(mean.y);
    if (series.behind.size() == 1) series.behind.clear();
    all.push_back(std::move(series));
  }
  return all;
}

std::string seeds_note(const CompareReport& report) {
  const bool seeds = std::any_of(report.rivals.begin(), report.rivals.end(),
                                 [](const RivalReport& r) { return r.results.size() > 1; });
  return seeds ? " The line is the mean over the seeds, each of which stands faintly behind it." : "";
}

Figure validation_figure(const CompareReport& report) {
  const bool classes = has_classes(report);
  Plot plot;
  plot.title = classes ? "Validation accuracy by time" : "Validation loss by time";
  plot.x = {"training time", "s", Scale::linear, {0.0}};
  plot.y = validation_axis(report);
  plot.levels = baseline(report);
  plot.series = curves(report, "validation", &Curve::seconds, classes ? &Curve::accuracy : &Curve::loss);
  return {std::move(plot),
          fmt::format("Which model is {} after the same training time{}.{}", classes ? "right more often" : "better",
                      classes ? "; the thin line is what always giving the most frequent answer reaches" : "",
                      seeds_note(report))};
}

bool counts_tokens(const std::vector<Series>& series) {
  return std::all_of(series.begin(), series.end(), [](const Series& s) {
    return std::all_of(s.x.begin(), s.x.end(), [](double x) { return std::isfinite(x); });
  });
}

Figure loss_figure(const CompareReport& report, bool by_tokens) {
  Plot plot;
  plot.title = by_tokens ? "Training loss by tokens" : "Training loss by time";
  plot.x = by_tokens ? Axis{"tokens read", "", Scale::linear, {0.0}} : Axis{"training time", "s", Scale::linear, {0.0}};
  plot.y = report.scores().numbers() ? Axis{"squared error"} : Axis{"cross-entropy", "nats"};
  plot.series = curves(report, "train", by_tokens ? &Curve::tokens : &Curve::seconds, &Curve::loss);
  if (by_tokens && !counts_tokens(plot.series)) {
    plot.title = "Training loss by step";
    plot.x = {"step", "", Scale::linear, {0.0}};
    plot.series = curves(report, "train", &Curve::step, &Curve::loss);
  }
  for (Series& series : plot.series) {
    series.smooth = true;
    series.behind.clear();  // means of seeds are quiet enough, and their noise would hide the lines
  }
  return {std::move(plot),
          fmt::format("{} All lines are running means over a twentieth of the picture's width.",
                      by_tokens ? "What each model makes of the same examples, speed set aside."
                                : "What each model makes of the same time: a faster one has seen more examples.")};
}

Figure length_figure(const CompareReport& report) {
  const std::vector<LengthScore>& groups = report.rivals.front().results.front().by_length;
  Plot plot;
  plot.title = "Accuracy by length";
  plot.x = {"length", "tokens"};
  plot.y = {"accuracy", "%"};
  for (const RivalReport& rival : report.rivals) {
    Series series{.name = rival.name};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      double sum = 0.0;
      for (const RunResult& result : rival.results)
        sum += g < result.by_length.size() ? result.by_length[g].accuracy : NAN;
      const double accuracy = sum / static_cast<double>(rival.results.size());
      series.x.push_back(0.5 * static_cast<double>(groups[g].from + groups[g].to));
      series.y.push_back(100.0 * accuracy);
      series.margin.push_back(100.0 * share_margin(accuracy, groups[g].examples));
    }
    plot.series.push_back(std::move(series));
  }
  return {std::move(plot),
          "On the test part, in groups of about as many examples; the upright lines are 95% intervals."};
}

}  // namespace

Figure time_figure(const CompareReport& report) {
  Bars bars{.title = "Where the time of a step goes", .axis = {"time of a step", "ms"}};
  for (const RivalReport& rival : report.rivals) {
    Bars::Bar bar{rival.name, {}};
    const RunResult& result = rival.results.front();
    for (const ZoneTime& zone : result.zones)
      bar.parts.push_back(
          {zone.name, 1e3 * zone.seconds / static_cast<double>(std::max<std::int64_t>(1, result.steps))});
    bars.bars.push_back(std::move(bar));
  }
  Figure figure{{},
                report.rivals.size() > 1 ? "The shorter a bar the faster a model, on the mean over all its steps."
                                         : "The mean over all steps; evaluations are not in it."};
  figure.bars = std::move(bars);
  return figure;
}

std::vector<std::pair<std::string, Figure>> compare_figures(const CompareReport& report) {
  std::vector<std::pair<std::string, Figure>> figures;
  figures.emplace_back(has_classes(report) ? "accuracy.png" : "validation.png", validation_figure(report));
  if (figures.back().second.plot.series.empty()) figures.clear();  // there is no validation part
  figures.emplace_back("speed.png", speed_figure(report));
  figures.emplace_back("loss-by-time.png", loss_figure(report, false));
  figures.emplace_back("loss-by-tokens.png", loss_figure(report, true));
  if (!report.rivals.front().results.front().by_length.empty())
    figures.emplace_back("length.png", length_figure(report));
  figures.emplace_back("time.png", time_figure(report));
  return figures;
}

}  // namespace fovea
