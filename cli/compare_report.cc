#include "cli/compare_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/run_text.h"
#include "fovea/version.h"
#include "io/csv.h"
#include "measure/machine.h"
#include "report/html.h"

namespace fovea::cli {
namespace {

// The rows of one split of a run's metrics.csv.
struct Curve {
  std::vector<double> step, seconds, loss, accuracy;
};

Curve read_curve(const RunSettings& settings, std::string_view split) {
  const CsvTable table = read_csv(Path(settings.train.out) / "metrics.csv");
  const std::size_t column =
      static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), "split") - table.columns.begin());
  if (column == table.columns.size())
    fail(ErrorCode::bad_input, "no column \"split\"", settings.train.out + "/metrics.csv");
  const std::vector<double> step = table.numbers("step"), seconds = table.numbers("train_seconds"),
                            loss = table.numbers("loss"), accuracy = table.numbers("accuracy");
  Curve curve;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.rows[i][column] != split) continue;
    curve.step.push_back(step[i]);
    curve.seconds.push_back(seconds[i]);
    curve.loss.push_back(loss[i]);
    curve.accuracy.push_back(100.0 * accuracy[i]);
  }
  return curve;
}

Figure accuracy_figure(const CompareReport& report) {
  Plot plot;
  plot.title = "Validation accuracy";
  plot.x = {"training time", "s", Scale::linear, {0.0}};
  plot.y = {"accuracy", "%"};
  plot.levels = {{100.0 * report.majority, "most frequent answer"}};
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    Curve curve = read_curve(report.settings[i], "validation");
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
    Curve curve = read_curve(report.settings[i], "train");
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
  return files;
}

}  // namespace

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
            .table = results_table(report.results),
            .table_note = table_note(report),
            .figures = {},
            .details = details(report),
            .downloads = downloads(report)};
  for (const auto& [file, figure] : figures) {
    write_png(figure.plot, path / file);
    page.figures.push_back(figure);
  }
  write_file(path / "results.csv", page.table.csv());
  write_file(path / "report.html", page_html(page));
}

}  // namespace fovea::cli
