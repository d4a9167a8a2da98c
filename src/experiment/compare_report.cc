#include "experiment/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiment/compare_figures.h"
#include "experiment/compare_tables.h"
#include "experiment/health_text.h"
#include "experiment/profile_text.h"
#include "experiment/run_folder.h"
#include "experiment/run_text.h"
#include "experiment/tasks.h"
#include "measure/load.h"
#include "measure/machine.h"
#include "report/html.h"

namespace fovea {
namespace {

std::vector<std::string> names_of(const CompareReport& report) {
  std::vector<std::string> names;
  for (const RivalReport& rival : report.rivals) names.push_back(rival.name);
  return names;
}

// "a, b and c"
std::string listed(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

const TrainConfig& training_of(const CompareReport& report) { return report.rivals.front().settings.front().train; }

std::string budget_text(const TrainConfig& train) {
  std::vector<std::string> parts;
  if (train.minutes >= 1.0) parts.push_back(fmt::format("{:g} minutes of training time", train.minutes));
  if (train.minutes > 0.0 && train.minutes < 1.0)
    parts.push_back(fmt::format("{:g} s of training time", 60.0 * train.minutes));
  if (train.tokens > 0) parts.push_back(quantity_text(Quantity::count, static_cast<double>(train.tokens)) + " tokens");
  if (train.steps != kNoStepLimit) parts.push_back(fmt::format("{} steps", train.steps));
  return fmt::format("{}", fmt::join(parts, " or "));
}

std::string seeds_text(const CompareReport& report) {
  std::vector<std::uint64_t> seeds;
  for (const RivalReport& rival : report.rivals)
    for (const RunSettings& settings : rival.settings)
      if (std::find(seeds.begin(), seeds.end(), settings.train.seed) == seeds.end())
        seeds.push_back(settings.train.seed);
  return fmt::format("seed{} {}", seeds.size() > 1 ? "s" : "", fmt::join(seeds, ", "));
}

// What is the same for all of them, else what the first has.
template <class T>
std::string shared_text(const CompareReport& report, const char* name, T&& value) {
  const auto first = value(training_of(report));
  for (const RivalReport& rival : report.rivals)
    if (value(rival.settings.front().train) != first) return fmt::format("{} as below", name);
  return fmt::format("{} {:g}", name, static_cast<double>(first));
}

std::string sentence(const CompareReport& report) {
  const bool all = report.finished() == report.planned;
  return fmt::format("{} trained on {} for {} each, {}, {}, {}, on {}. {}, fovea {}.{}", listed(names_of(report)),
                     report.name, budget_text(training_of(report)), seeds_text(report),
                     shared_text(report, "batch", [](const TrainConfig& t) { return t.batch; }),
                     shared_text(report, "peak rate", [](const TrainConfig& t) { return t.schedule.peak; }),
                     this_machine().text(), today(), build_text(),
                     all ? "" : fmt::format(" {} of {} runs are finished.", report.finished(), report.planned));
}

std::string table_note(const CompareReport& report) {
  const bool seeds = std::any_of(report.rivals.begin(), report.rivals.end(),
                                 [](const RivalReport& r) { return r.results.size() > 1; });
  const std::int64_t examples = report.scores().examples;
  std::string note = report.data + ". Scores are those of the best checkpoint on the test part";
  note += seeds ? fmt::format(
                      ", means over the seeds; ± is half of the 95% interval of the mean, by the {} examples tested "
                      "and by how far "
                      "seeds differ (\"over seeds\" is their sample deviation).",
                      examples)
                : fmt::format(
                      "; ± is half of the 95% interval by the {} examples tested, and says nothing of other seeds "
                      "(--seeds 3 does).",
                      examples);
  if (report.frequency_loss > 0.0)
    note += " \"token frequencies\": knowing how often each token comes, and nothing else.";
  return note + " Bold is what is best and apart from all others: the 95% interval of the difference leaves out 0.";
}

std::vector<Section> sections(const CompareReport& report) {
  std::vector<Section> all{{"What it took", course_table(report)}};
  const auto add = [&](const char* title, std::optional<Table> table) {
    if (table) all.push_back({title, std::move(*table)});
  };
  add("Accuracy by length", length_table(report));
  add("Beside published scores, whose budgets are others", published_table(report));
  add("Settings that differ", settings_table(report));
  if (report.finished() > std::ssize(report.rivals)) add("Every run", runs_table(report));
  return all;
}

std::vector<Detail> details(const CompareReport& report) {
  std::vector<Detail> details;
  std::string times;
  for (const RivalReport& rival : report.rivals)
    for (const RunResult& r : rival.results) {
      times += fmt::format(
          "{}\n{} steps in {:.1f} s of training and {:.1f} s of evaluation; best checkpoint at step {} with {:.2f}% on "
          "validation\n{}\n\n",
          r.name, r.steps, r.train_seconds, r.eval_seconds, r.best_step, 100.0 * r.validation_accuracy, zones_text(r));
      if (r.profile) details.push_back({r.name + ": profile", profile_text(*r.profile, Terminal{})});
    }
  details.push_back({"Times", times});
  const RivalReport& first = report.rivals.front();
  details.push_back({"Settings of " + first.name, json_text(write_fields(first.settings.front()))});
  details.push_back({"Versions and machine", fmt::format("fovea {}\n{}\noneDNN {}\n{}\n", build_text(),
                                                         compiler_version(), onednn_version(), this_machine().text())});
  return details;
}

std::vector<Download> downloads(const CompareReport& report) {
  std::vector<Download> files{{"results.csv", runs_table(report).csv()}};
  for (const RivalReport& rival : report.rivals)
    for (std::size_t i = 0; i < rival.results.size(); ++i) {
      const RunResult& r = rival.results[i];
      files.push_back(
          {folder_name(r.name) + "-metrics.csv", read_file(Path(rival.settings[i].train.out) / "metrics.csv")});
      if (r.profile) files.push_back({folder_name(r.name) + "-profile.csv", profile_csv(*r.profile)});
    }
  return files;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json rival_json(const CompareReport& report, const RivalReport& rival, const std::optional<Target>& target) {
  Json json{{"name", rival.name}, {"seeds", rival.results.size()}};
  for (const ScoreColumn& score : score_columns(rival.results.front().scores)) {
    const Estimate estimate = estimate_of(report, rival, score);
    json[score.column.name] = {{"mean", number(estimate.value)}, {"interval", number(estimate.margin)}};
  }
  if (target) json["seconds_to_target"] = number(seconds_to(rival, *target));
  return json;
}

}  // namespace

std::int64_t CompareReport::finished() const {
  std::int64_t count = 0;
  for (const RivalReport& rival : rivals) count += std::ssize(rival.results);
  return count;
}

std::vector<std::string> comparison_warnings(const CompareReport& report) {
  const int cores = this_machine().cores;
  double most = 0.0;
  std::int64_t busy = 0;
  for (const RivalReport& rival : report.rivals)
    for (const RunResult& result : rival.results) {
      most = std::max(most, result.other_load);
      busy += load_warning(result.other_load, cores).empty() ? 0 : 1;
    }
  if (busy == 0) return {};
  const std::string runs = report.finished() > 1 ? fmt::format("In {} of {} runs ", busy, report.finished()) : "";
  return {runs + load_warning(most, cores)};
}

Json compare_json(const CompareReport& report) {
  const std::optional<Target> target = target_of(report);
  Json models = Json::array(), results = Json::array();
  for (const RivalReport& rival : report.rivals) {
    models.push_back(rival_json(report, rival, target));
    for (const RunResult& result : rival.results) {
      Json row = write_fields(result);
      row["steps_per_second"] = result.steps_per_second();
      results.push_back(std::move(row));
    }
  }
  return {{"version", build_text()},
          {"date", today()},
          {"machine", this_machine().text()},
          {"data", report.data},
          {"stand_in", report.stand_in},
          {"majority_share", report.majority},
          {"frequency_loss", report.frequency_loss > 0.0 ? Json(report.frequency_loss) : Json()},
          {"target", target ? Json(target->text()) : Json()},
          {"models", models},
          {"results", results}};
}

void write_comparison(const CompareReport& report, const std::string& folder) {
  const Path path = folder;
  Page page{.title = fmt::format("{}: {}", report.name, fmt::join(names_of(report), ", ")),
            .sentence = sentence(report),
            .command = report.command,
            .table = comparison_table(report),
            .table_note = table_note(report),
            .warnings = comparison_warnings(report),
            .sections = sections(report),
            .links = report.links,
            .details = details(report),
            .downloads = downloads(report)};
  for (const RivalReport& rival : report.rivals)
    for (const RunResult& r : rival.results)
      if (r.health)
        for (Section& section : health_sections(*r.health, r.name)) page.sections.push_back(std::move(section));
  for (auto& [file, figure] : compare_figures(report)) {
    write_png(figure, path / file);
    page.figures.push_back(std::move(figure));
  }
  write_file(path / "results.csv", runs_table(report).csv());
  write_file(path / "report.html", page_html(page));
}

}  // namespace fovea
