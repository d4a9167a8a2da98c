#include "experiment/compare_report.h"

#include <fmt/format.h>

#include <cmath>

#include "experiment/curves.h"
#include "experiment/profile_text.h"
#include "experiment/run_folder.h"
#include "experiment/run_text.h"
#include "fovea/version.h"
#include "measure/machine.h"
#include "report/html.h"

namespace fovea {
namespace {

Figure accuracy_figure(const CompareReport& report) {
  Plot plot;
  plot.title = "Validation accuracy";
  plot.x = {"training time", "s", Scale::linear, {0.0}};
  plot.y = {"accuracy", "%"};
  plot.levels = {{100.0 * report.majority, "most frequent answer"}};
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    Curve curve = read_curve(report.settings[i].train.out, "validation");
    plot.series.push_back({report.results[i].name, std::move(curve.seconds), std::move(curve.accuracy)});
  }
  return {std::move(plot),
          "Which model is right more often for the same training time; the thin line is what always giving "
          "the most frequent answer reaches."};
}

Figure loss_figure(const CompareReport& report, bool by_step) {
  Plot plot;
  plot.title = by_step ? "Training loss by step" : "Training loss by time";
  plot.x = by_step ? Axis{"step", "", Scale::linear, {0.0}} : Axis{"training time", "s", Scale::linear, {0.0}};
  plot.y = {"cross-entropy", "nats"};
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    Curve curve = read_curve(report.settings[i].train.out, "train");
    plot.series.push_back({report.results[i].name, by_step ? std::move(curve.step) : std::move(curve.seconds),
                           std::move(curve.loss), true});
  }
  return {std::move(plot), by_step ? "What each model makes of the same number of examples, speed set aside."
                                   : "What each model makes of the same time: a faster one has seen more examples."};
}

std::vector<std::string> names_of(const CompareReport& report) {
  std::vector<std::string> names;
  for (const RunResult& result : report.results) names.push_back(result.name);
  return names;
}

std::string table_note(const CompareReport& report) {
  return report.data +
         ". Accuracy and loss are those of the best checkpoint on the test split; steps per second and memory those of "
         "training.";
}

std::string sentence(const CompareReport& report) {
  const TrainConfig& train = report.settings.front().train;
  const std::string budget = train.minutes > 0.0 ? fmt::format("{:g} minutes of training time", train.minutes)
                                                 : fmt::format("{} steps", train.steps);
  return fmt::format("{} trained on {} for {} each on {}.", fmt::join(names_of(report), " and "), report.name, budget,
                     this_machine().text());
}

std::vector<Detail> details(const CompareReport& report) {
  std::vector<Detail> details;
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const RunResult& r = report.results[i];
    const std::string times = fmt::format(
        "{} steps in {:.1f} s of training and {:.1f} s of evaluation; best checkpoint at step {} with {:.2f}% on "
        "validation\n{}\n\n",
        r.steps, r.train_seconds, r.eval_seconds, r.best_step, 100.0 * r.validation_accuracy, zones_text(r));
    if (r.profile) details.push_back({r.name + ": profile", profile_text(*r.profile, Terminal{})});
    details.push_back({r.name + ": times and settings", times + json_text(write_fields(report.settings[i]))});
  }
  details.push_back({"Versions and machine", fmt::format("fovea {}\n{}\noneDNN {}\n{}\n", FOVEA_VERSION,
                                                         compiler_version(), onednn_version(), this_machine().text())});
  return details;
}

std::vector<Download> downloads(const CompareReport& report) {
  std::vector<Download> files{{"results.csv", results_table(report.results).csv()}};
  for (const RunSettings& settings : report.settings)
    files.push_back({Path(settings.train.out).filename().string() + "-metrics.csv",
                     read_file(Path(settings.train.out) / "metrics.csv")});
  for (const RunResult& r : report.results)
    if (r.profile) files.push_back({folder_name(r.name) + "-profile.csv", profile_csv(*r.profile)});
  return files;
}

}  // namespace

Table comparison_table(const CompareReport& report) {
  Table table = results_table(report.results);
  if (report.majority > 0.0) {
    std::vector<TableCell> cells(score_cells(report.results.front().scores).size() + 3, std::nan(""));  // and the costs
    cells.front() = report.majority;
    table.add("most frequent class", std::move(cells));
  }
  return table;
}

Json compare_json(const CompareReport& report) {
  Json results = Json::array();
  for (const RunResult& result : report.results) {
    Json row = write_fields(result);
    row["steps_per_second"] = result.steps_per_second();
    results.push_back(std::move(row));
  }
  return {{"version", FOVEA_VERSION},
          {"machine", this_machine().text()},
          {"data", report.data},
          {"majority_share", report.majority},
          {"results", results}};
}

void write_comparison(const CompareReport& report, const std::string& folder) {
  const Path path = folder;
  const std::vector<std::pair<std::string, Figure>> figures{{"accuracy.png", accuracy_figure(report)},
                                                            {"loss-by-time.png", loss_figure(report, false)},
                                                            {"loss-by-step.png", loss_figure(report, true)}};
  Page page{.title = fmt::format("{}: {}", report.name, fmt::join(names_of(report), ", ")),
            .sentence = sentence(report),
            .command = report.command,
            .table = comparison_table(report),
            .table_note = table_note(report),
            .figures = {},
            .details = details(report),
            .downloads = downloads(report)};
  for (const auto& [file, figure] : figures) {
    write_png(figure.plot, path / file);
    page.figures.push_back(figure);
  }
  write_file(path / "results.csv", results_table(report.results).csv());
  write_file(path / "report.html", page_html(page));
}

}  // namespace fovea
