#include "experiment/compare_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/statistics.h"
#include "experiment/curves.h"
#include "experiment/tasks.h"

namespace fovea {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class F>
std::vector<double> numbers_of(const RivalReport& rival, F&& number) {
  std::vector<double> numbers;
  for (const RunResult& result : rival.results) numbers.push_back(static_cast<double>(number(result)));
  return numbers;
}

template <class F>
double mean_of(const RivalReport& rival, F&& number) {
  return describe(numbers_of(rival, number)).mean;
}

bool has_seeds(const CompareReport& report) {
  return std::any_of(report.rivals.begin(), report.rivals.end(),
                     [](const RivalReport& r) { return r.results.size() > 1; });
}

// By the seeds of all models together; of single runs unknown.
template <class F>
double seeds_margin(const CompareReport& report, const RivalReport& rival, F&& number) {
  std::vector<Sample> samples;
  for (const RivalReport& other : report.rivals) samples.push_back(describe(numbers_of(other, number)));
  return pooled_margin(samples, rival.results.size());
}

// One run says nothing of others; how much its speed moved while it lasted is what is known.
TableCell speed_cell(const CompareReport& report, const RivalReport& rival) {
  const auto speed = [](const RunResult& r) { return r.steps_per_second(); };
  TableCell cell(mean_of(rival, speed));
  cell.margin = has_seeds(report) ? seeds_margin(report, rival, speed)
                                  : drift_margin(read_curve(rival.settings.front().train.out, "train").rate);
  return cell;
}

TableCell memory_cell(const CompareReport& report, const RivalReport& rival) {
  const auto memory = [](const RunResult& r) { return r.peak_memory; };
  TableCell cell(mean_of(rival, memory));
  cell.margin = has_seeds(report) ? seeds_margin(report, rival, memory) : 0.0;
  return cell;
}

// What is reached without a model.
void add_baseline(const CompareReport& report, std::size_t columns, Table& table) {
  std::vector<TableCell> cells(columns, kNone);
  if (report.majority > 0.0) {
    cells.front() = report.majority;
    return table.add("majority", std::move(cells));
  }
  if (report.frequency_loss <= 0.0) return;
  Scores scores = report.scores();
  scores.loss = report.frequency_loss;
  std::size_t column = 0;
  for (const ScoreColumn& score : score_columns(scores)) {
    cells[column] = score.value(scores);
    column += column == 0 && has_seeds(report) ? 2 : 1;  // behind the first stands how far seeds differ
  }
  table.add("token frequencies", std::move(cells));
}

// A validation curve over the training time.
Line validation_line(const RunSettings& settings, bool accuracy) {
  Curve curve = read_curve(settings.train.out, "validation");
  return {std::move(curve.seconds), std::move(accuracy ? curve.accuracy : curve.loss)};
}

// The best that each seed reached on the validation part, on the mean.
double best_reached(const RivalReport& rival, bool accuracy) {
  std::vector<double> best;
  for (const RunSettings& settings : rival.settings) {
    const Line line = validation_line(settings, accuracy);
    if (line.y.empty()) return kNone;
    best.push_back(accuracy ? *std::max_element(line.y.begin(), line.y.end())
                            : *std::min_element(line.y.begin(), line.y.end()));
  }
  return describe(best).mean;
}

// "softmax" is what papers call a transformer.
bool same_model(std::string_view published, std::string_view name) {
  return published == name || (published == "transformer" && name == "softmax");
}

std::string steps_text(std::int64_t steps) {
  return steps >= 1000 && steps % 1000 == 0 ? fmt::format("{}k", steps / 1000) : fmt::format("{}", steps);
}

std::map<std::string, std::string> values_of(const RunSettings& settings) {
  std::map<std::string, std::string> values;
  for (const FieldHelp& field : list_fields(settings)) values[field.path] = field.value;
  for (const char* own : {"attention", "preset", "train.out", "train.seed"}) values.erase(own);
  return values;
}

}  // namespace

Estimate estimate_of(const CompareReport& report, const RivalReport& rival, const ScoreColumn& score) {
  const auto value = [&](const RunResult& r) { return score.value(r.scores); };
  const auto squared = [&](const RunResult& r) { return std::pow(score.margin(r.scores), 2); };
  const double tested = std::sqrt(mean_of(rival, squared)), mean = mean_of(rival, value);
  if (has_seeds(report)) return {mean, std::hypot(tested, seeds_margin(report, rival, value))};
  return {mean, tested > 0.0 ? tested : kUnknownMargin};
}

Table comparison_table(const CompareReport& report) {
  const std::vector<ScoreColumn> scores = score_columns(report.scores());
  const bool seeds = has_seeds(report);
  std::vector<TableColumn> columns;
  for (const ScoreColumn& score : scores) {
    columns.push_back(score.column);
    if (seeds && columns.size() == 1) columns.push_back({"over seeds", score.column.quantity});
  }
  columns.insert(columns.end(), {{"steps/s", Quantity::number, Best::highest},
                                 {"peak memory", Quantity::bytes, Best::lowest},
                                 {"parameters", Quantity::count}});
  Table table(columns);
  for (const RivalReport& rival : report.rivals) {
    std::vector<TableCell> cells;
    for (const ScoreColumn& score : scores) {
      const Estimate estimate = estimate_of(report, rival, score);
      cells.push_back(score_cell(estimate.value, estimate.margin));
      if (!seeds || cells.size() != 1) continue;
      const auto values = numbers_of(rival, [&](const RunResult& r) { return score.value(r.scores); });
      cells.emplace_back(values.size() > 1 ? describe(values).deviation : kNone);
    }
    cells.push_back(speed_cell(report, rival));
    cells.push_back(memory_cell(report, rival));
    cells.emplace_back(mean_of(rival, [](const RunResult& r) { return r.parameters; }));
    table.add(rival.name, std::move(cells));
  }
  add_baseline(report, columns.size(), table);
  return table;
}

std::string Target::text() const { return accuracy ? fmt::format("{:g}%", level) : fmt::format("loss {:g}", level); }

std::optional<Target> target_of(const CompareReport& report) {
  constexpr double kShare = 0.9, kLeastGain = 2.0;
  const bool accuracy = report.scores().classes();
  double best = kNone, start = accuracy ? 100.0 * report.majority : kNone;
  for (const RivalReport& rival : report.rivals) {
    const double own = best_reached(rival, accuracy);
    if (!std::isfinite(own)) continue;
    best = std::isnan(best) ? own : accuracy ? std::max(best, own) : std::min(best, own);
    const Curve train = read_curve(rival.settings.front().train.out, "train");
    if (!accuracy && !train.loss.empty())
      start = std::isnan(start) ? train.loss.front() : std::max(start, train.loss.front());
  }
  if (std::isnan(best) || std::isnan(start)) return {};
  const double level = start + kShare * (best - start);
  if (accuracy && best - start < kLeastGain) return {};
  if (!accuracy && best >= start) return {};
  return Target{accuracy ? std::floor(level) : std::ceil(100.0 * level) / 100.0, accuracy};
}

double seconds_to(const RivalReport& rival, const Target& target) {
  std::vector<double> times;
  for (const RunSettings& settings : rival.settings)
    times.push_back(reached(validation_line(settings, target.accuracy), target.level, target.accuracy));
  return describe(times).mean;
}

Table course_table(const CompareReport& report) {
  const std::optional<Target> target = target_of(report);
  std::vector<TableColumn> columns{{"steps", Quantity::count},
                                   {"tokens seen", Quantity::count},
                                   {"tokens/s", Quantity::count},
                                   {"training time", Quantity::seconds}};
  if (target) columns.push_back({"time to " + target->text(), Quantity::seconds, Best::lowest});
  Table table(columns);
  for (const RivalReport& rival : report.rivals) {
    std::vector<TableCell> cells{mean_of(rival, [](const RunResult& r) { return r.steps; }),
                                 mean_of(rival, [](const RunResult& r) { return r.tokens; }),
                                 mean_of(rival, [](const RunResult& r) { return r.tokens_per_second(); }),
                                 mean_of(rival, [](const RunResult& r) { return r.train_seconds; })};
    if (target) {
      TableCell cell(seconds_to(rival, *target));
      if (std::isnan(cell.value)) cell.text = "not reached";
      cell.margin = kUnknownMargin;  // it is read off between evaluations
      cells.push_back(std::move(cell));
    }
    table.add(rival.name, std::move(cells));
  }
  return table;
}

Table runs_table(const CompareReport& report) {
  const std::vector<ScoreColumn> scores = score_columns(report.scores());
  std::vector<TableColumn> columns{{"seed", Quantity::text}};
  for (const ScoreColumn& score : scores) columns.push_back({score.column.name, score.column.quantity});
  columns.insert(columns.end(), {{"steps", Quantity::count},
                                 {"tokens", Quantity::count},
                                 {"training time", Quantity::seconds},
                                 {"steps/s"},
                                 {"peak memory", Quantity::bytes},
                                 {"parameters", Quantity::count},
                                 {"cores used by others"}});
  Table table(columns);
  for (const RivalReport& rival : report.rivals)
    for (std::size_t i = 0; i < rival.results.size(); ++i) {
      const RunResult& r = rival.results[i];
      std::vector<TableCell> cells{std::to_string(rival.settings[i].train.seed)};
      for (const ScoreColumn& score : scores)
        cells.push_back(score_cell(score.value(r.scores), score.margin(r.scores)));
      for (const double number :
           {static_cast<double>(r.steps), static_cast<double>(r.tokens), r.train_seconds, r.steps_per_second(),
            static_cast<double>(r.peak_memory), static_cast<double>(r.parameters), r.other_load})
        cells.emplace_back(number);
      table.add(rival.name, std::move(cells));
    }
  return table;
}

std::optional<Table> published_table(const CompareReport& report) {
  if (report.task.empty() || report.stand_in) return {};
  const ArenaTask& task = arena_task(report.task);
  const auto found = [&](const Published& source, const std::string& name) {
    for (const PublishedScore& score : source.scores)
      if (same_model(score.model, name)) return score.value;
    return kNone;
  };
  std::vector<TableColumn> columns{{"ours", Quantity::percent}, {"our budget", Quantity::text}};
  for (const Published& source : task.published)
    columns.push_back(
        {fmt::format("{} ({} steps of {})", source.source, steps_text(source.steps), source.batch), Quantity::percent});
  Table table(columns);
  const ScoreColumn score = score_columns(report.scores()).front();
  for (const RivalReport& rival : report.rivals) {
    const Estimate ours = estimate_of(report, rival, score);
    const double steps = mean_of(rival, [](const RunResult& r) { return r.steps; });
    std::vector<TableCell> cells{score_cell(ours.value, ours.margin),
                                 fmt::format("{:.0f} steps of {}", steps, rival.settings.front().train.batch)};
    bool any = false;
    for (const Published& source : task.published) {
      cells.emplace_back(found(source, rival.name));
      any = any || !std::isnan(cells.back().value);
    }
    if (any) table.add(rival.name, std::move(cells));
  }
  return table.empty() ? std::nullopt : std::optional(std::move(table));
}

std::optional<Table> length_table(const CompareReport& report) {
  const std::vector<LengthScore>& groups = report.rivals.front().results.front().by_length;
  if (groups.empty()) return {};
  std::vector<TableColumn> columns;
  for (const LengthScore& group : groups)
    columns.push_back({fmt::format("{} to {}", group.from, group.to), Quantity::percent, Best::highest});
  Table table(columns, "length");
  for (const RivalReport& rival : report.rivals) {
    std::vector<TableCell> cells;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto accuracy = [&](const RunResult& r) {
        return g < r.by_length.size() ? r.by_length[g].accuracy : kNone;
      };
      const double mean = mean_of(rival, accuracy);
      const double tested = share_margin(mean, groups[g].examples);
      cells.push_back(
          score_cell(mean, has_seeds(report) ? std::hypot(tested, seeds_margin(report, rival, accuracy)) : tested));
    }
    table.add(rival.name, std::move(cells));
  }
  return table;
}

std::optional<Table> settings_table(const CompareReport& report) {
  std::vector<TableColumn> columns;
  std::vector<std::map<std::string, std::string>> values;
  for (const RivalReport& rival : report.rivals) {
    columns.push_back({rival.name, Quantity::text});
    values.push_back(values_of(rival.settings.front()));
  }
  std::map<std::string, std::vector<TableCell>> rows;
  for (const auto& own : values)
    for (const auto& [path, value] : own) rows.try_emplace(path);
  Table table(columns, "setting");
  for (auto& [path, cells] : rows) {
    bool same = true;
    for (const auto& own : values) {
      const auto at = own.find(path);
      cells.emplace_back(at == own.end() || at->second.empty() ? std::string("none") : at->second);
      same = same && cells.back().text == cells.front().text;
    }
    if (!same) table.add(path, std::move(cells));
  }
  return table.empty() ? std::nullopt : std::optional(std::move(table));
}

}  // namespace fovea
