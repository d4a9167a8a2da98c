#include "experiment/train_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/statistics.h"
#include "experiment/compare_figures.h"
#include "experiment/compare_tables.h"
#include "experiment/curves.h"
#include "experiment/health_log.h"
#include "experiment/health_text.h"
#include "experiment/profile_text.h"
#include "experiment/run_folder.h"
#include "experiment/run_text.h"
#include "experiment/samples.h"
#include "io/json.h"
#include "measure/machine.h"
#include "report/html.h"

namespace fovea {
namespace {

constexpr std::int64_t kMostPredicted = 5000;

Figure loss_figure(const TrainReport& report) {
  const bool numbers = report.result.scores.numbers();
  Plot plot;
  plot.title = "Loss";
  plot.x = {"step", "", Scale::linear, {0.0}};
  plot.y = numbers ? Axis{"squared error", ""} : Axis{"cross-entropy", "nats"};
  Curve train = read_curve(report.settings.train.out, "train");
  Curve validation = read_curve(report.settings.train.out, "validation");
  plot.series.push_back({"training", std::move(train.step), std::move(train.loss), true});
  if (!validation.step.empty())
    plot.series.push_back({"validation", std::move(validation.step), std::move(validation.loss)});
  return {std::move(plot),
          "Batches of the training part, under dropout and smoothed, and the validation part. Validation that rises "
          "while training falls is learned by heart."};
}

std::optional<Figure> accuracy_figure(const TrainReport& report) {
  const Scores& scores = report.result.scores;
  Curve validation = read_curve(report.settings.train.out, "validation");
  if (!scores.classes() || validation.step.empty()) return {};
  Plot plot;
  plot.title = "Accuracy";
  plot.x = {"step", "", Scale::linear, {0.0}};
  plot.y = {"accuracy", "%"};
  plot.levels = {{100.0 * scores.majority, "most frequent answer"}};
  Curve train = read_curve(report.settings.train.out, "train");
  plot.series.push_back({"training", std::move(train.step), std::move(train.accuracy), true});
  plot.series.push_back({"validation", std::move(validation.step), std::move(validation.accuracy)});
  return Figure{std::move(plot), "The thin line is what always giving the most frequent answer reaches."};
}

// What is given for answers of like size: groups of about as many examples, with their deviations.
std::optional<Figure> numbers_figure(const TrainReport& report) {
  constexpr std::size_t kGroups = 10;
  std::vector<NumberPrediction> sorted = report.numbers;
  std::sort(sorted.begin(), sorted.end(),
            [](const NumberPrediction& a, const NumberPrediction& b) { return a.answer < b.answer; });
  if (sorted.size() < 2 * kGroups) return {};
  Plot plot;
  plot.title = "Given against right";
  plot.x = {"right answer", ""};
  plot.y = {"given", ""};
  Series given{.name = report.result.name};
  for (std::size_t g = 0; g < kGroups; ++g) {
    std::vector<double> answers, gifts;
    for (std::size_t i = g * sorted.size() / kGroups; i < (g + 1) * sorted.size() / kGroups; ++i) {
      answers.push_back(sorted[i].answer);
      gifts.push_back(sorted[i].given);
    }
    given.x.push_back(describe(answers).mean);
    given.y.push_back(describe(gifts).mean);
    given.margin.push_back(describe(gifts).deviation);
  }
  plot.series.push_back({"right", given.x, given.x});
  plot.series.push_back(std::move(given));
  return Figure{
      std::move(plot),
      "The test part in ten groups by their right answers: the mean of what is given, and its deviation within "
      "the group. Where the lines meet, the answers are right on the mean."};
}

std::string sentence(const TrainReport& report, const Dataset& data) {
  const RunResult& r = report.result;
  return fmt::format(
      "{} trained on {} for {} steps of {} in {:.0f} s ({} tokens, peak rate {:g}, seed {}) on {}. {}, fovea {}.",
      r.name, data.name, r.steps, report.settings.train.batch, r.train_seconds, r.tokens,
      report.settings.train.schedule.peak, report.settings.train.seed, this_machine().text(), today(), build_text());
}

std::string note(const TrainReport& report, const Dataset& data) {
  std::string text = describe_data(data) + ". Scores are those of the best checkpoint, of step " +
                     std::to_string(report.result.best_step) + ", on the test part.";
  if (report.result.scores.classes() || data.task == Task::regress)
    text += fmt::format(" ± is half of the 95% interval, by the {} examples tested.", report.result.scores.examples);
  if (report.metrics)
    text += fmt::format(" F1 {:.3f}, Matthews' correlation {:.3f}.", report.metrics->f1, report.metrics->correlation);
  return text;
}

std::vector<Detail> details(const TrainReport& report) {
  std::vector<Detail> all;
  if (report.result.profile) all.push_back({"Profile", profile_text(*report.result.profile, Terminal{})});
  all.push_back({"What to do next", next_command(report.settings)});
  all.push_back({"Times and settings", zones_text(report.result) + "\n\n" + json_text(write_fields(report.settings))});
  all.push_back({"Versions and machine", fmt::format("fovea {}\n{}\noneDNN {}\n{}\n", build_text(), compiler_version(),
                                                     onednn_version(), this_machine().text())});
  return all;
}

void add_health(const HealthReport& health, const Path& folder, Page& page) {
  for (Section& section : health_sections(health)) page.sections.push_back(std::move(section));
  if (!health.warnings.empty())
    page.details.push_back({"What went wrong", fmt::format("{}\n", fmt::join(health.warnings, "\n"))});
  if (!is_there(folder / kHealthFile)) return;  // too short a run for a look
  page.figures.push_back(health_figure(folder));
  page.downloads.push_back({kHealthFile, read_file(folder / kHealthFile)});
}

// What the best checkpoint makes of the test part, or of validation where there is none.
std::vector<Section> sections(TrainReport& report, const Dataset& data, const RunEnvironment& environment) {
  const Split& split = empty(data.test) ? *data.validation : *data.test;
  ContextOptions options = environment.machine;
  options.seed = report.settings.train.seed;
  Context context(options);
  const Model model = load_model(context, checkpoint_of(report.settings.train.out, "train").string());
  const PredictOptions most{
      .examples = kMostPredicted, .batch = report.settings.train.eval_batch, .stop = environment.stop};
  if (data.task == Task::regress) {
    report.numbers = predict_numbers(context, model, split, most);
    return number_sections(context, data, split, report.numbers);
  }
  if (!report.result.scores.classes()) return text_sections(context, model, data, split);
  const std::vector<Prediction> predictions = predict(context, model, split, most);
  if (split.size() <= kMostPredicted) report.metrics = class_metrics(predictions, data.classes);
  return class_sections(context, data, split, predictions);
}

// The run as a comparison with nothing else.
CompareReport alone(const TrainReport& report) {
  CompareReport out{.name = report.result.name, .majority = report.result.scores.majority, .planned = 1};
  out.rivals.push_back({report.result.name, {report.settings}, {report.result}});
  return out;
}

}  // namespace

std::string next_command(const RunSettings& settings) {
  const std::string& folder = settings.train.out;
  switch (settings.model.task) {
    case Task::lm: return fmt::format("fovea generate {} --prompt \"...\" --tokens 200", folder);
    case Task::seq2seq: return fmt::format("fovea generate {} --data lines.txt --out translated.txt", folder);
    case Task::encode: return fmt::format("fovea embed {} --data lines.txt --out vectors.npy", folder);
    default:
      return fmt::format("fovea eval {} --data OTHER; fovea train --resume {} --steps {}", folder, folder,
                         2 * settings.train.steps);
  }
}

void write_train_report(TrainReport& report, const Dataset& data, const RunEnvironment& environment) {
  const Path folder = report.settings.train.out;
  Page page{.title = fmt::format("{}: {}", data.name, report.result.name),
            .sentence = sentence(report, data),
            .command = report.command,
            .table = result_table(report.result)};
  const CompareReport run = alone(report);
  page.warnings = comparison_warnings(run);
  page.sections = sections(report, data, environment);
  if (auto lengths = length_table(run))
    page.sections.insert(page.sections.begin(), Section{"Accuracy by length", std::move(*lengths)});
  page.table_note = note(report, data);
  page.figures.push_back(loss_figure(report));
  write_png(page.figures.back().plot, folder / "loss.png");
  if (auto figure = accuracy_figure(report)) page.figures.push_back(std::move(*figure));
  if (auto figure = numbers_figure(report)) page.figures.push_back(std::move(*figure));
  page.figures.push_back(time_figure(run));
  if (report.result.health) add_health(*report.result.health, folder, page);
  for (Detail& detail : details(report)) page.details.push_back(std::move(detail));
  page.downloads.push_back({"metrics.csv", read_file(folder / "metrics.csv")});
  if (report.result.profile) page.downloads.push_back({"profile.csv", profile_csv(*report.result.profile)});
  write_file(folder / "report.html", page_html(page));
}

}  // namespace fovea
