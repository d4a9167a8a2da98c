#include "experiment/reproduce/study_report.h"

#include <fmt/format.h>

#include <cmath>

#include "experiment/curves.h"
#include "fovea/version.h"
#include "report/html.h"

namespace fovea {
namespace {

// The first seed of a row that has been trained.
Path trained(const StudyResults& results, std::size_t row, std::size_t trial) {
  for (const std::uint64_t seed : results.plan().choices().seeds) {
    const Path folder = results.plan().folder({row, trial, seed});
    if (is_there(folder / kOutcomeFile) && is_there(folder / "training" / "metrics.csv")) return folder / "training";
  }
  return {};
}

// Validation by step; accuracy where it is asked for, else the loss.
std::optional<Figure> curves(const StudyResults& results, std::size_t column) {
  const StudyColumn& spec = results.study().columns[column];
  const bool accuracy = spec.value == "accuracy";
  Plot plot;
  plot.title = spec.name + ": validation";
  plot.x = {"step", "", Scale::linear, {0.0}};
  plot.y = accuracy ? Axis{"accuracy", "%"} : Axis{"loss", ""};
  if (accuracy && std::isfinite(results.baseline(column)))
    plot.levels = {{100.0 * results.baseline(column), "most frequent class"}};
  for (const std::size_t row : results.rows()) {
    const Path run = trained(results, row, spec.trial);
    if (run.empty()) continue;
    Curve curve = read_curve(run, "validation");
    if (curve.step.empty()) continue;
    plot.series.push_back(
        {results.study().rows[row].name, std::move(curve.step), std::move(accuracy ? curve.accuracy : curve.loss)});
  }
  if (plot.series.empty()) return {};
  return Figure{std::move(plot),
                "What each model reaches after as many steps, on the validation part; the first seed."};
}

Figure points(const StudyResults& results, const StudyFigure& spec) {
  const auto& columns = results.study().columns;
  const auto axis = [&](std::size_t column) {
    return Axis{columns[column].name, columns[column].quantity == Quantity::percent ? "%" : ""};
  };
  const auto number = [&](std::size_t row, std::size_t column) {
    const double value = results.value(row, column).mean;
    return columns[column].quantity == Quantity::percent ? 100.0 * value : value;
  };
  Plot plot;
  plot.title = spec.title;
  plot.x = axis(spec.x);
  plot.y = axis(spec.y);
  for (const std::size_t row : results.rows()) {
    const double x = number(row, spec.x), y = number(row, spec.y);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    std::string name = results.study().rows[row].name;
    if (spec.size < columns.size() && results.value(row, spec.size).seeds > 0)
      name += ", " + quantity_text(columns[spec.size].quantity, results.value(row, spec.size).mean);
    plot.series.push_back({std::move(name), {x}, {y}});
  }
  return {std::move(plot), spec.caption};
}

std::string sentence(const StudyResults& results) {
  const Study& study = results.study();
  return fmt::format("{}. Published values: {}. {} of {} cells are there{}.", study.title, study.source, results.done(),
                     results.plan().cells().size(), results.machine().empty() ? "" : ", run on " + results.machine());
}

bool is_drawn(const StudyResults& results, std::size_t column) {
  const Study& study = results.study();
  const StudyColumn& spec = study.columns[column];
  for (std::size_t i = 0; i < column; ++i)
    if (study.columns[i].trial == spec.trial) return false;  // one picture for each trial
  const TrialKind kind = study.trials[spec.trial].kind;
  return results.has_column(column) && (kind == TrialKind::training || kind == TrialKind::tuning);
}

}  // namespace

std::vector<std::string> study_notes(const StudyResults& results) {
  const Study& study = results.study();
  std::vector<std::string> notes;
  if (!study.note.empty()) notes.push_back(study.note);
  for (std::size_t i = 0; i < study.trials.size(); ++i) {
    const Trial& trial = study.trials[i];
    if (!results.plan().choices().columns.empty() && !results.plan().has_trial(i)) continue;
    if (!results.plan().left_out(i).empty()) {
      notes.push_back(fmt::format("{}: {}", trial.name, results.plan().left_out(i)));
      continue;
    }
    if (!trial.note.empty()) notes.push_back(fmt::format("{}: {}", trial.name, trial.note));
    if (const auto changes = results.plan().quick_changes(i); !changes.empty())
      notes.push_back(fmt::format("{}, --quick: {}", trial.name, fmt::join(changes, " ")));
  }
  if (!results.plan().choices().set.empty())
    notes.push_back(fmt::format("changed: {}", fmt::join(results.plan().choices().set, " ")));
  return notes;
}

void write_study(const StudyResults& results, const std::string& command) {
  const Study& study = results.study();
  const Path folder = results.plan().folder();
  Page page{.title = fmt::format("{}: {}", study.name, study.title),
            .sentence = sentence(results),
            .command = command,
            .table = results.summary(),
            .table_note =
                "Ours, mean and sample deviation over the seeds, on the test part of the checkpoint that was best on "
                "validation; in brackets what was run of the published budget."};
  for (const StudyFigure& figure : study.figures) page.figures.push_back(points(results, figure));
  for (std::size_t i = 0; i < study.columns.size(); ++i) {
    if (!results.has_column(i)) continue;
    page.sections.push_back({study.columns[i].name, results.details(i)});
    if (is_drawn(results, i))
      if (auto figure = curves(results, i)) page.figures.push_back(std::move(*figure));
  }
  page.details.push_back({"Budgets and data", fmt::format("{}\n", fmt::join(study_notes(results), "\n"))});
  page.details.push_back({"Choices", json_text(write_fields(results.plan().choices()))});
  const std::string csv = results.csv(), json = json_text(results.json());
  page.downloads = {{"results.csv", csv}, {"results.json", json, "application/json"}};
  write_file(folder / "results.csv", csv);
  write_file(folder / kResultsFile, json);
  write_file(folder / "report.html", page_html(page));
}

}  // namespace fovea
